# Images for Docker and Apptainer, of the same packages as the bare environments. What cannot be made here leaves a record
# that says why, as an environment does.
rule all_images:
    input:
        expand(
            ".images/{environment}/{runtime}.json",
            environment=environments_of_the_plan(),
            runtime=("docker", "apptainer"),
        ),


rule base_image:
    input:
        again=again_if(lacks_its_image, ".images/base/docker.json"),
    output:
        ".images/base/docker.json",
        ".images/base/docker.json.prov.json",
    log:
        "logs/images/base.log",
    localrule: True
    params:
        base=PLAN.settings.containers.base,
        packages=list(PACKAGES),
    script:
        "../scripts/make_base_image.py"


# What has to be built for an image is built as for its bare environment, and against that.
rule docker_image:
    input:
        dockerfile="containers/{environment}/Dockerfile",
        requirements=requirements,
        recipe=lambda wildcards: recipe_files(requirements(wildcards)),
        base=".images/base/docker.json",
        bare=lambda wildcards: (
            [f".environments/{wildcards.environment}/environment.json"]
            if recipe_files(requirements(wildcards))
            else []
        ),
        again=again_if(lacks_its_image, ".images/{environment}/docker.json"),
    output:
        ".images/{environment}/docker.json",
        ".images/{environment}/docker.json.prov.json",
    log:
        "logs/images/{environment}/docker.log",
    localrule: True
    threads: 1  # as pip: two images at once on two cores
    script:
        "../scripts/make_docker_image.py"


# The SIF lies beside its description; each start checks that it is there and whole.
rule apptainer_image:
    input:
        image=".images/{environment}/docker.json",
        again=again_if(lacks_its_image, ".images/{environment}/apptainer.json"),
    output:
        ".images/{environment}/apptainer.json",
        ".images/{environment}/apptainer.json.prov.json",
    log:
        "logs/images/{environment}/apptainer.log",
    localrule: True
    threads: 2  # mksquashfs takes what there is
    script:
        "../scripts/make_apptainer_image.py"
