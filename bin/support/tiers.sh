# Which gems and programs each command needs. Sourced by bin/demo, bin/setup, bin/site, bin/test.

# Groups of the Gemfile that only `bin/test --full` needs
FULL_GROUPS=databases:rails:web:terminal:site:parse_stack:valgrind

# tier_of ARGUMENT…       prints what bin/setup has to prepare for bin/test with these arguments
tier_of() {
  for argument in "$@"; do
    case $argument in
      --list | lint* | core* | model* | files | signatures | spec:alone | spec:slow*) ;;
      *) echo full; return ;;
    esac
  done
  echo quick
}

# use_gems_of TIER        has Bundler install and use the gems of demo, quick, site or full
use_gems_of() {
  case $1 in
    demo) export BUNDLE_GEMFILE="$PWD/bin/support/demo/Gemfile" ;;
    quick) export BUNDLE_WITHOUT="$FULL_GROUPS" ;;
    site) export BUNDLE_WITHOUT="$(echo "$FULL_GROUPS" | sed 's/site://')" ;;
  esac
}
