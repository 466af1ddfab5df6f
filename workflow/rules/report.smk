# All that came out, for somebody elsewhere: a page that opens offline, and an archive with everything that it was made from. Of the
# default figures, and of others that have been made; nothing else is measured for it.
REPORTED = sorted(
    name
    for name in PLAN.figures
    if name in PLAN.default_figures or Path(f"{RESULTS}/figures/{name}.svg").exists()
)


rule report_page:
    input:
        figures=expand("{results}/figures/{figure}.svg", results=RESULTS, figure=REPORTED),
        tables=sorted({table for name in REPORTED for table in tables_of(PLAN.figures[name])}),
        claims=f"{RESULTS}/claims.csv",
        template="src/ddlbench/report/page.html",
        again=again_if_damaged(f"{RESULTS}/report.html"),
    output:
        f"{RESULTS}/report.html",
        f"{RESULTS}/report.html.prov.json",
    log:
        f"{LOGS}/report.log",
    localrule: True
    params:
        code=lambda wildcards: code_for("report").sha256,
        asked=lambda wildcards: sha256_json([asdict(PLAN.figures[name]) for name in REPORTED]),
    script:
        "../scripts/write_report.py"


rule report_archive:
    input:
        page=f"{RESULTS}/report.html",
        results=rules.report_page.input.figures
        + rules.report_page.input.tables
        + [rules.report_page.input.claims],
        again=again_if_damaged(f"{RESULTS}/report.zip"),
    output:
        f"{RESULTS}/report.zip",
        f"{RESULTS}/report.zip.prov.json",
    log:
        f"{LOGS}/report_archive.log",
    localrule: True
    params:
        code=lambda wildcards: code_for("archive").sha256,
        configurations=[str(file) for file in CONFIGURATION.files],
    script:
        "../scripts/write_archive.py"
