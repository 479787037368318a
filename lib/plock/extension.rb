# frozen_string_literal: true

# The engine, in C. Bundler compiles it when the gem is installed or taken from Git, but not when
# the gem is taken from a path.
begin
  require "plock/plock"
rescue LoadError => e
  raise unless e.path == "plock/plock"

  raise LoadError, "plock's extension is not built in #{File.expand_path("../..", __dir__)}: " \
                   "run bin/setup there, or bundle exec rake compile (Bundler compiles nothing " \
                   "for a gem with path:)", cause: e
end
