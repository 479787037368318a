# frozen_string_literal: true

require_relative "acquire_options"
require_relative "own_holds"

module Plock
  module Locking
    # The short way to acquire in the engine's stores. A call with a block and no options but
    # `ttl:` and `wait:` runs in C, from its arguments to the release (binding_direct.c,
    # binding_group.c). {Acquisition} and {GroupAcquisition} handle all other calls. They also
    # handle every call until the store has found that its secret agrees with that of the other
    # processes: until then, and always in stores without this module, `@plain` is nil.
    #
    # @api private
    module Direct
      # @see Locking#config
      def config=(config)
        super
        @plain &&= config.plain_calls(self)
      end

      # Continues in Ruby a call for several keys whose first attempt, in C, did not acquire all
      # of them.
      #
      # @param ttl [Numeric, Object] may be USUAL, like `wait`
      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      # @param attempt [Array] the members of a {GroupAcquisition::Attempt}
      # @return [Object, nil] the block's value; nil: others held a key until `wait` ended
      def go_on_asking(keys, ttl, wait, raises, *attempt, &block)
        first = GroupAcquisition::Attempt.new(*attempt)
        options = options_for(block, ttl: ttl, wait: wait)
        acquiring_all(keys, options, block, first, raises: raises)
      end

      private

      # Ends the leases of one block if the binding could not release all of them, or if one of
      # them was lost.
      #
      # @param ttl [Numeric, Object] as the caller passed it; may be USUAL
      # @param answer [Array<Boolean, nil>, Error, nil] as {LeaseGroup#end_of_block} takes it
      def end_group(leases, ttl, answer)
        options = options_for(nil, ttl: ttl, renew: false)
        options.used = true
        LeaseGroup
          .new(leases.to_h { |lease| [lease.key.to_s, lease] }, options, self)
          .end_of_block(answer)
      end

      def agreed
        super
        @plain = config.plain_calls(self)
      end
    end
  end
end
