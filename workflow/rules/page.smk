# Everything that the report is rendered from, as one web page. The times on it are the expected ones, so that equal
# results give equal pages; `tdjepa page` by hand shows those that this machine measured.
rule page:
    input:
        PHASES["judge"],
        ancients(ROWS),
        ROWS_CARDS,
        ancients(PAIRS),
        PAIRS_CARDS,
        ALIASING,
        PROBES,
        CURVES,
        EPISODES_CARDS,
        times="workflow/expected_seconds.yaml",
        code=sources("page", *P.envs),
    output:
        marked(PHASES["page"], "Report", ".html"),
    log:
        FILES.log("page"),
    params:
        slice=job("page"),
    message:
        "page"
    shell:
        "python -m tdjepa page --slice {params.slice:q} --times {input.times:q} >{log:q} 2>&1"
