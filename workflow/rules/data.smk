# Demonstrations and what is mined from them. Where those of an environment come from is one word, collect.source.
rule collect:
    input:
        code=lambda w: sources("collect", w.env),
    output:
        episodes=FILES.one("episodes"),
        card=FILES.card("episodes"),
    log:
        FILES.log("collect_{env}"),
    benchmark:
        FILES.benchmark("collect_{env}")
    wildcard_constraints:
        env=FILES.envs_from("generated"),
    resources:
        mem_mb=4000,
        runtime=1440,
    params:
        slice=job("collect"),
    message:
        "collect {wildcards.env}"
    shell:
        "python -m tdjepa collect --slice {params.slice:q} --out {output.episodes:q} >{log:q} 2>&1"


rule fetch:
    input:
        code=lambda w: sources("fetch", w.env),
    output:
        episodes=FILES.one("episodes"),
        card=FILES.card("episodes"),
    log:
        FILES.log("fetch_{env}"),
    wildcard_constraints:
        env=FILES.envs_from("released"),
    resources:
        mem_mb=8000,
        runtime=1440,
    params:
        slice=job("fetch"),
    message:
        "fetch {wildcards.env}"
    shell:
        # the mirrors are read from params.yaml: in the slice, another mirror would make everything again
        f"python -m tdjepa fetch --scale {S}"
        " --slice {params.slice:q} --out {output.episodes:q} >{log:q} 2>&1"


rule take:
    input:
        code=lambda w: sources("take", w.env),
    output:
        episodes=FILES.one("episodes"),
        card=FILES.card("episodes"),
    log:
        FILES.log("take_{env}"),
    wildcard_constraints:
        env=FILES.envs_from("file"),
    resources:
        mem_mb=8000,
        runtime=1440,
    params:
        slice=job("take"),
    message:
        "take {wildcards.env}"
    shell:
        # the path is read from params.yaml: the slice has the checksum, so a file that was moved is the same file
        f"python -m tdjepa take --scale {S}"
        " --slice {params.slice:q} --out {output.episodes:q} >{log:q} 2>&1"


rule mine:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        code=lambda w: sources("mine", w.env),
    output:
        FILES.gives("mine"),
    log:
        FILES.log("mine_{env}"),
    benchmark:
        FILES.benchmark("mine_{env}")
    params:
        slice=job("mine"),
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "mine {wildcards.env}"
    shell:
        "python -m tdjepa mine --slice {params.slice:q} --episodes {input.episodes:q} --out {params.out:q} >{log:q} 2>&1"
