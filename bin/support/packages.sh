# The tools to build and test plock, and their names in each package manager. Sourced by bin/setup.

DEMO_THINGS="compiler pkg-config ruby ruby-headers bundler certificates hiredis openssl"
QUICK_THINGS="$DEMO_THINGS git server"
FULL_THINGS="$QUICK_THINGS libpq mysqlclient sqlite ncurses postgresql mariadb memcached pgbouncer"
ANALYSIS_THINGS="$FULL_THINGS gcc clang clang-format clang-tidy sanitizers valgrind chromium
  promtool"

has() { command -v "$1" >/dev/null 2>&1; }

# Debian keeps servers in a folder that is not in every user's PATH.
has_server() { has "$1" || [ -x "/usr/sbin/$1" ]; }

clang_command() {
  for name in clang clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 \
    clang-13; do
    if has "$name"; then echo "$name"; return; fi
  done
}

has_clang() { [ -n "$(clang_command)" ]; }

clang_major() { "$(clang_command)" -dumpversion | cut -d. -f1; }

# True if clang can link a fuzz target with its sanitizers.
clang_sanitizes() {
  has_clang || return 1
  folder=$(mktemp -d)
  echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }' \
    >"$folder/probe.c"
  "$(clang_command)" -fsanitize=fuzzer,address,undefined "$folder/probe.c" -o "$folder/probe" \
    >/dev/null 2>&1
  status=$?
  rm -rf "$folder"
  return $status
}

# True if there are certificates for fetching gems over HTTPS. Minimal systems lack them.
has_certificates() {
  for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem \
    /etc/pki/tls/certs/ca-bundle.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do
    if [ -n "$file" ] && [ -s "$file" ]; then return; fi
  done
  return 1
}

# Debian keeps PostgreSQL's programs outside PATH.
has_postgresql() {
  if has initdb && has postgres; then return; fi
  for folder in /usr/lib/postgresql/*/bin; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then return; fi
  done
  return 1
}

present() {
  case $1 in
    compiler) has cc && has make ;;
    pkg-config | ruby | git | valgrind | gcc | clang-format | promtool) has "$1" ;;
    ruby-headers)
      has ruby &&
        ruby -rrbconfig -e 'exit File.exist?("#{RbConfig::CONFIG["rubyhdrdir"]}/ruby.h")' ;;
    bundler) has bundle ;;
    certificates) has_certificates ;;
    hiredis) has pkg-config && pkg-config --exists 'hiredis >= 0.14' ;;
    openssl) has pkg-config && pkg-config --exists 'openssl >= 1.1.1' ;;
    server) has redis-server ;;
    libpq) has pkg-config && pkg-config --exists libpq ;;
    mysqlclient) has mariadb_config || has mysql_config ;;
    sqlite) has pkg-config && pkg-config --exists sqlite3 ;;
    ncurses) has pkg-config && pkg-config --exists ncursesw ;;
    postgresql) has_postgresql ;;
    mariadb) has_server mariadbd && has mariadb-install-db ;;
    memcached | pgbouncer) has_server "$1" ;;
    chromium) has chromium || has chromium-browser || has google-chrome ;;
    clang) has_clang ;;
    sanitizers) clang_sanitizes ;;
  esac
}

absent() {
  for thing in "$@"; do present "$thing" || echo "$thing"; done
}

package_manager() {
  for name in apt-get dnf apk brew; do
    if has "$name"; then echo "$name"; return; fi
  done
}

# package MANAGER THING
package() {
  case $1:$2 in
    apt-get:compiler) echo build-essential ;;
    apt-get:ruby-headers) echo ruby-dev ;;
    apt-get:bundler) echo ruby-bundler ;;
    *:certificates) echo ca-certificates ;;
    apt-get:hiredis) echo libhiredis-dev ;;
    apt-get:openssl) echo libssl-dev ;;
    apt-get:server) echo redis-server ;;
    apt-get:libpq) echo libpq-dev ;;
    apt-get:mysqlclient) echo libmariadb-dev ;;
    apt-get:sqlite) echo libsqlite3-dev ;;
    apt-get:ncurses) echo libncurses-dev ;;
    apt-get:mariadb) echo mariadb-server ;;
    apt-get:sanitizers) if has_clang; then echo "libclang-rt-$(clang_major)-dev"; fi ;;
    apt-get:valgrind) echo valgrind libc6-dbg ;;
    dnf:libpq) echo libpq-devel ;;
    dnf:mysqlclient) echo mariadb-connector-c-devel ;;
    dnf:sqlite) echo sqlite-devel ;;
    dnf:ncurses) echo ncurses-devel ;;
    dnf:postgresql) echo postgresql-server ;;
    dnf:mariadb) echo mariadb-server ;;
    apk:libpq) echo postgresql-dev ;;
    apk:mysqlclient) echo mariadb-dev ;;
    apk:sqlite) echo sqlite-dev ;;
    apk:ncurses) echo ncurses-dev ;;
    brew:mysqlclient) echo mariadb-connector-c ;;
    dnf:compiler) echo gcc make ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    dnf:ruby-headers) echo ruby-devel ;;
    dnf:bundler) echo rubygem-bundler ;;
    dnf:hiredis) echo hiredis-devel ;;
    dnf:openssl) echo openssl-devel ;;
    apk:compiler) echo build-base ;;
    apk:ruby-headers) echo ruby-dev ;;
    apk:bundler) echo ruby-bundler ;;
    apk:hiredis) echo hiredis-dev ;;
    apk:openssl) echo openssl-dev ;;
    brew:compiler) echo gcc make ;;
    brew:ruby-headers | brew:bundler) echo ruby ;;
    brew:openssl) echo openssl@3 ;;
    brew:clang | brew:clang-format | brew:clang-tidy | brew:sanitizers) echo llvm ;;
    apk:clang-format | dnf:clang-format | apk:clang-tidy | dnf:clang-tidy) echo clang-tools-extra ;;
    apk:pkg-config | brew:pkg-config) echo pkgconf ;;
    *:server) echo redis ;;
    *:promtool) echo prometheus ;;
    *:sanitizers) echo compiler-rt ;;
    *) echo "$2" ;;
  esac
}

# packages MANAGER THING…
packages() {
  manager=$1
  shift
  for thing in "$@"; do package "$manager" "$thing"; done |
    tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/ $//'
}
