# frozen_string_literal: true

class RemoteLock
  # What locks are made in. The client libraries are loaded with the adapter that needs them.
  module Adapters
    autoload :Base, File.expand_path("adapters/base", __dir__)
    autoload :Memcached, File.expand_path("adapters/memcached", __dir__)
    autoload :Redis, File.expand_path("adapters/redis", __dir__)
    autoload :Store, File.expand_path("adapters/store", __dir__)
  end
end
