# frozen_string_literal: true

# The constants and settings that a Parse application defines. This file defines the missing
# ones, so that Parse::Lock works without such an application.
module Parse
  # The superclass of Parse's errors.
  class Error < ::StandardError; end unless const_defined?(:Error, false)

  class << self
    # @!attribute synchronize_create_store
    #   @return [Object, nil] the store for locks (see {Parse::Lock}); nil means `Parse.cache`
    attr_reader :synchronize_create_store unless method_defined?(:synchronize_create_store)
    attr_writer :synchronize_create_store unless method_defined?(:synchronize_create_store=)

    # @!attribute synchronize_create_secret
    #   @return [#to_s, nil] the secret that hashes keys; nil means
    #     `ENV["PARSE_STACK_LOCK_SECRET"]`
    attr_reader :synchronize_create_secret unless method_defined?(:synchronize_create_secret)
    attr_writer :synchronize_create_secret unless method_defined?(:synchronize_create_secret=)
  end
end
