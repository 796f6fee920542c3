# The pinned packages, LaTeX and headless OpenGL; the code is not in it: mount the project's folder.
#   docker build -t tdjepa .
#   docker run --rm -v "$PWD:/project" tdjepa snakemake --cores 8 all --config scale=smoke
# Not built where it was written, because there is no Docker: tests/test_ecosystem.py reads it instead.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        git make poppler-utils latexmk texlive-latex-extra texlive-publishers texlive-science \
        libegl1 libgl1-mesa-dri libgles2 libosmesa6 \
    && rm -rf /var/lib/apt/lists/*

COPY requirements.lock /tmp/requirements.lock
RUN pip install --no-cache-dir --requirement /tmp/requirements.lock

ENV OMP_NUM_THREADS=1 PYTHONPATH=/project/src:/project/workflow
WORKDIR /project
CMD ["python", "-m", "tdjepa", "doctor"]
