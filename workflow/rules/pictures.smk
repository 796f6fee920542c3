# Pictures, for who asks: `snakemake pictures`. No phase and no DVC stage: nothing is concluded from them.
rule pictures:
    input:
        FILES.pictures(),
    localrule: True
    message:
        "pictures: complete"


rule picture:
    input:
        lambda w: FILES.evaluated_checkpoints(w.env, w.method, w.seed),
        lambda w: FILES.evaluated_cards(w.env, w.method, w.seed),
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        manifest=FILES.mined(f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("picture", w.env),
    output:
        FILES.picture("{cost}_{pair}.gif"),
    log:
        FILES.log("picture_{env}_{method}_{seed}_{cost}_{pair}"),
    wildcard_constraints:
        cost="[a-z0-9_]+",
        pair=r"\d+",
    params:
        slice=job(
            lambda w: tdjepa_params.evaluate_slice(P, w.env, w.method, int(w.seed))
        ),
        checkpoints=lambda w: layout.training(S, w.env, w.method, w.seed),
    message:
        "picture {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa picture --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --cost {wildcards.cost:q} --pair {wildcards.pair:q} --out {output:q}"
        " >{log:q} 2>&1"


rule landscape:
    input:
        checkpoint=ancient(FILES.last_checkpoint),
        card=FILES.last_card,
        code=lambda w: sources("picture", w.env),
    output:
        pdf=FILES.picture("landscape.pdf"),
        png=FILES.picture("landscape.png"),
    log:
        FILES.log("landscape_{env}_{method}_{seed}"),
    params:
        slice=job(
            lambda w: tdjepa_params.evaluate_slice(P, w.env, w.method, int(w.seed))
        ),
        checkpoints=lambda w: layout.training(S, w.env, w.method, w.seed),
    message:
        "landscape {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa landscape --slice {params.slice:q} --checkpoints {params.checkpoints:q} --out {output.pdf:q}"
        " >{log:q} 2>&1"
