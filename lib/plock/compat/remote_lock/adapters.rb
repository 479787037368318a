# frozen_string_literal: true

class RemoteLock
  # The adapters of plock. Each one is loaded when it is first used, with the client library that it
  # needs.
  module Adapters
    autoload :Base, File.expand_path("adapters/base", __dir__)
    autoload :Memcached, File.expand_path("adapters/memcached", __dir__)
    autoload :Redis, File.expand_path("adapters/redis", __dir__)
    autoload :Store, File.expand_path("adapters/store", __dir__)
  end
end
