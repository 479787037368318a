# frozen_string_literal: true

# What an application that uses Parse brings along. Whatever of it is already there is left as it
# is, and the rest is defined here, so that Parse::Lock works without it.
module Parse
  class Error < ::StandardError; end unless const_defined?(:Error, false)

  class << self
    # @!attribute synchronize_create_store
    #   @return [Object, nil] the store for locks (see {Parse::Lock}); where nil, `Parse.cache` if there is such
    attr_reader :synchronize_create_store unless method_defined?(:synchronize_create_store)
    attr_writer :synchronize_create_store unless method_defined?(:synchronize_create_store=)

    # @!attribute synchronize_create_secret
    #   @return [#to_s, nil] the secret that keys are hashed with; where nil, `ENV["PARSE_STACK_LOCK_SECRET"]`
    attr_reader :synchronize_create_secret unless method_defined?(:synchronize_create_secret)
    attr_writer :synchronize_create_secret unless method_defined?(:synchronize_create_secret=)
  end
end
