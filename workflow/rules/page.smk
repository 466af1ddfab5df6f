# The recommender's page in pictures, answered by rows of anwar2021, of which it prints nine (docs/serve.md says where the
# other three are from): `snakemake --cores 2 anwar2021_fig17`.
from ddlbench.plan.catalogue import SCREENSHOTS
from ddlbench.recommender.screenshot import chromium


def needs_chromium(wildcards):
    """Refuse what cannot be photographed, before anything starts."""
    try:
        chromium()
    except DdlbenchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    return []


for screenshot, question in SCREENSHOTS.items():

    rule:
        name:
            screenshot
        input:
            needs_chromium,
            table="config/examples/anwar2021_printed.csv",
            page=sorted(
                str(file) for file in Path("src/ddlbench/recommender/page").rglob("*") if file.is_file()
            ),
            again=again_if_damaged(f"{RESULTS}/figures/{screenshot}.png"),
        output:
            multiext(f"{RESULTS}/figures/{screenshot}", ".png", ".png.prov.json"),
        log:
            f"{LOGS}/figures/{screenshot}.log",
        localrule: True
        params:
            question=question,
            code=lambda wildcards: code_for("page").sha256,
        script:
            "../scripts/photograph_page.py"
