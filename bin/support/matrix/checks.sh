# In the chroot: the suite, once for each server.
#
#   checks.sh SERVERS [CHECK…]
set -eu
cd /plock
servers=$1
shift

# This folder is first in PATH. In it, Valkey has the name by which the suite starts its servers.
STAND_IN=/opt/plock-valkey
# The checks that use a server.
MEET_A_SERVER="spec torture"

say() { echo "bin/matrix: $*" >&2; }

versions() {
  ruby --version
  echo "hiredis $(pkg-config --modversion hiredis), OpenSSL $(pkg-config --modversion openssl)," \
    "$(redis-server --version)"
}

install_valkey() {
  if ! command -v valkey-server >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends valkey-server valkey-tools >&2
  fi
  mkdir -p "$STAND_IN"
  for name in server cli; do ln -sf "$(command -v "valkey-$name")" "$STAND_IN/redis-$name"; done
}

bin/setup --analysis
bundle list
outcome=0
for server in $servers; do
  echo "== bin/matrix: $server"
  path=$PATH
  checks=$*
  if [ "$server" = valkey ]; then
    install_valkey
    PATH=$STAND_IN:$PATH
    checks=${checks:-$MEET_A_SERVER}
  fi
  versions
  if bin/test --full $checks; then
    say "$server: passed"
  else
    say "$server: FAILED"
    outcome=1
  fi
  PATH=$path
done
exit "$outcome"
