# frozen_string_literal: true

begin
  require "dalli"
rescue LoadError => e
  raise unless e.path == "dalli"

  message = "plock talks to memcached through the gem dalli, which is not installed here or not " \
            "in the Gemfile. Add `gem \"dalli\", \"~> 4.0\"` to the Gemfile. It is needed with a " \
            "client of memcache-client, too"
  raise LoadError, message, cause: e
end
