#!/bin/sh
# The paper needs LaTeX and two environments need OpenGL, which pip cannot bring. This installs them where it can
# (apt-get, as root or by sudo without a password) and otherwise says what to install. Missing LaTeX is an error only for
# `system_packages.sh required`: the Python work does without. For tests, `system_packages.sh browser slurm` brings a Chromium
# too, which opens the web page, and SLURM, of which tests start one node (as services neither is needed).
set -eu

# One file of each Debian package that the paper draws on, so that half a TeX Live does not pass for a whole one.
has_latex() {
    command -v latexmk >/dev/null && kpsewhich acmart.cls xstring.sty algpseudocode.sty pgfplots.sty >/dev/null
}

asked=" $* "
wants() {
    case "$asked" in *" $1 "*) return 0 ;; *) return 1 ;; esac
}
required=no
! wants required || required=yes

needed=""
has_latex || needed="texlive-publishers texlive-latex-extra texlive-science latexmk"
command -v pdftotext >/dev/null || needed="${needed:+$needed }poppler-utils"
# Headless OpenGL, for the environments drawn by MuJoCo (Reacher, Cube).
optional=""
has_gl() {
    [ "$(uname)" != Linux ] || (PATH="$PATH:/usr/sbin:/sbin" ldconfig -p) 2>/dev/null | grep -q -e libEGL.so.1 -e libOSMesa.so
}
has_gl || optional="libegl1 libgl1-mesa-dri libgles2 libosmesa6"
# Tests draw with both of its libraries.
has_osmesa() {
    [ "$(uname)" != Linux ] || (PATH="$PATH:/usr/sbin:/sbin" ldconfig -p) 2>/dev/null | grep -q libOSMesa.so
}
! wants browser || ! has_gl || has_osmesa || optional="${optional:+$optional }libosmesa6"
has_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$name" >/dev/null; then return 0; fi
    done
    return 1
}
! wants browser || has_browser || optional="${optional:+$optional }chromium"
has_slurm() {
    (PATH="$PATH:/usr/sbin:/sbin"; command -v slurmctld && command -v slurmd && command -v sbatch && command -v munged) >/dev/null
}
! wants slurm || has_slurm || optional="${optional:+$optional }munge slurm-client slurmctld slurmd"
[ -n "$needed$optional" ] || exit 0

by_hand() {
    echo "System packages are missing and were not installed: $1. On Debian or Ubuntu:"
    [ -z "$needed" ] || echo "  sudo apt-get update && sudo apt-get install --no-install-recommends $needed"
    [ -z "$optional" ] || echo "  optional, to draw Reacher and Cube without a display or for tests: $optional"
    has_latex && exit 0
    echo "Elsewhere: a TeX Live with latexmk and acmart. Without it the paper cannot be built; all else works."
    [ "$required" = no ] || echo "Nothing was started."
    [ "$required" = no ]
    exit
}

if ! command -v apt-get >/dev/null; then
    by_hand "there is no apt-get here"
elif [ "$(id -u)" = 0 ]; then
    as_root="env"
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n env"
else
    by_hand "that needs root"
fi

apt() {
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$log" 2>&1
}

[ -z "$needed" ] || echo "Installing with apt-get (about 500 MB, 3 minutes): $needed"
[ -z "$optional" ] || echo "Installing with apt-get, what is optional: $optional"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# An install that was killed leaves dpkg unwilling until this is run.
$as_root DEBIAN_FRONTEND=noninteractive dpkg --configure -a </dev/null >>"$log" 2>&1 || true
# shellcheck disable=SC2086 # the lists are meant to split into words
if apt update && { [ -z "$needed" ] || apt install --no-install-recommends $needed; } && has_latex; then
    # apart from the rest and one by one, because newer Debians lack libosmesa6
    for package in $optional; do
        apt install --no-install-recommends "$package" || echo "Could not install this, which is optional: $package"
    done
else
    tail -n 5 "$log"
    by_hand "apt-get failed, its last words are above"
fi
