# Which of the papers' claims hold, by the tables of the configuration's default figures; nothing else is measured for it.
CLAIMED = [
    PLAN.figures[name]
    for name in PLAN.default_figures
    if list(PLAN.figures[name].tables) == [f"tables/{name}.csv"]
]


rule all_claims:
    input:
        tables=[f"{RESULTS}/tables/{figure.name}.csv" for figure in CLAIMED],
        claims=sorted(str(file) for file in Path("config/claims").glob("*.yaml")),
        again=again_if_damaged(f"{RESULTS}/claims.csv"),
    output:
        f"{RESULTS}/claims.csv",
        f"{RESULTS}/claims.md",
        f"{RESULTS}/claims.csv.prov.json",
    log:
        f"{LOGS}/claims.log",
    localrule: True
    params:
        code=lambda wildcards: code_for("claims").sha256,
    script:
        "../scripts/judge_claims.py"
