# Pictures, for who asks: `snakemake pictures`. No phase and no DVC stage: nothing is concluded from them.
rule pictures:
    input:
        FILES.pictures(),
    localrule: True
    message:
        "pictures: complete"


rule picture:
    input:
        lambda w: ancients(FILES.evaluated(w)),
        lambda w: map(card, FILES.evaluated(w)),
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        manifest=FILES.one("mined", name=f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("picture", w.env),
    output:
        marked([FILES.one("picture", name="{cost}_{pair}.gif")], "Rollouts", ".gif"),
    log:
        FILES.log("picture_{env}_{method}_{seed}_{cost}_{pair}"),
    wildcard_constraints:
        cost="[a-z0-9_]+",
        pair=r"\d+",
    params:
        slice=job("picture"),
        checkpoints=FILES.one("training"),
    message:
        "picture {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa picture --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --cost {wildcards.cost:q} --pair {wildcards.pair:q} --out {output:q}"
        " >{log:q} 2>&1"


rule landscape:
    input:
        checkpoint=ancient(FILES.one("checkpoint", epoch=P.train.epochs)),
        card=FILES.card("checkpoint", epoch=P.train.epochs),
        code=lambda w: sources("picture", w.env),
    output:
        pdf=FILES.one("picture", name="landscape.pdf"),
        png=marked([FILES.one("picture", name="landscape.png")], "Figures", ".png")[0],
    log:
        FILES.log("landscape_{env}_{method}_{seed}"),
    params:
        slice=job("landscape"),
        checkpoints=lambda w, input: os.path.dirname(input.checkpoint),
    message:
        "landscape {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa landscape --slice {params.slice:q} --checkpoints {params.checkpoints:q} --out {output.pdf:q}"
        " >{log:q} 2>&1"
