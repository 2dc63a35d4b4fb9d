#!/bin/sh
# Install mdaml with extras into .venv, and say how long that takes: tools/install.sh EXTRAS SECONDS
extras=$1 expected=$2
log=.venv/install-$extras.log
started=$(date +%s)

tell() {
  elapsed=$(($(date +%s) - started))
  if [ -t 1 ]; then
    printf '\r  %s of about %s seconds ' "$elapsed" "$expected"
  elif [ "$elapsed" -ge "$next" ]; then
    next=$((elapsed + 10))
    echo "  $elapsed of about $expected seconds"
  fi
}

echo "Installing mdaml[$extras] and what it needs into .venv: about $expected seconds, once."
(next=10; while sleep 1; do tell; done) &
clock=$!
trap 'kill $clock 2>/dev/null' EXIT
trap 'exit 130' INT TERM
.venv/bin/python -m pip install --quiet --editable ".[$extras]" >"$log" 2>&1
status=$?
[ -t 1 ] && echo
if [ $status -eq 0 ]; then
  echo "Installed in $(($(date +%s) - started)) seconds."
else
  cat "$log" >&2
  echo "pip could not install mdaml[$extras]: its messages are above." >&2
fi
exit $status
