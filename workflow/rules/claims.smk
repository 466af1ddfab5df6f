# Which of the papers' claims hold, by the tables of the default figures, and of others that have been made; nothing else is
# measured for it.
rule all_claims:
    input:
        tables=tables_of_points(PLAN.default_figures),
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
        options=lambda wildcards: OWNER.options(),
    script:
        "../scripts/judge_claims.py"
