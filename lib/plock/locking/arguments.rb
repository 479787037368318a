# frozen_string_literal: true

require_relative "../dispatcher"
require_relative "../errors"

module Plock
  module Locking
    # Checks the arguments of {Locking#acquire} and similar methods. An invalid value raises, and
    # is never clamped.
    #
    # @api private
    module Arguments
      KEY_MAX_BYTES = 1024
      LABEL_MAX_BYTES = 100

      # Seconds. A shorter lease expires before it is of use; more than 366 days is a mistake.
      TTL_MIN = 0.005
      SPAN_MAX = 31_622_400.0

      # The values of `on_error:` that {Locking#once} accepts.
      ON_ERROR = %i[release keep].freeze
      RELEASE = %i[wait background].freeze

      # The values that `replicas:` accepts.
      REPLICAS = (0..100).freeze

      class << self
        def key(key)
          name = Symbol === key ? key.name : key
          unless String === name && !name.empty?
            raise ArgumentError,
                  "key must be a String or Symbol that is not empty (got #{key.class})"
          end
          return name if name.bytesize <= KEY_MAX_BYTES

          raise ArgumentError,
                "key exceeds #{KEY_MAX_BYTES} bytes (got #{name.bytesize}): " \
                "use a digest of its parts"
        end

        def ttl(value, name = "ttl:") = seconds(name, value, TTL_MIN)

        def span(name, value) = seconds(name, value, 0.0)

        # @param renew [Boolean, Symbol] as {renew} returns it
        def max_hold(value, renew)
          unless renew
            raise ArgumentError,
                  "max_hold: limits how long a lease is renewed, and this one is not renewed: " \
                  "pass renew: true, or a block and no ttl:"
          end

          seconds("max_hold:", value, TTL_MIN)
        end

        # @param automatic [Boolean] is the lease renewed if the caller passes nil?
        # @param watched [Boolean] does the caller pass `on_lost:`?
        # @return [Boolean, Symbol] `:automatic`: the lease is renewed although the caller passed
        #   neither `renew:` nor `on_lost:`
        def renew(value, automatic:, watched:)
          return value if value == true || value == false
          unless value.nil?
            raise ArgumentError, "renew: must be true, false or nil (got #{value.inspect})"
          end
          return false unless automatic

          watched || :automatic
        end

        # @raise [UnsupportedError] `:raise` under a Fiber scheduler or in a signal handler; any
        #   value outside of the main Ractor
        def on_lost(value, block_given)
          unless value == :raise || value.respond_to?(:call)
            raise ArgumentError, "on_lost: must be :raise or answer to call (got #{value.inspect})"
          end
          unless Events.here?
            unsupported("on_lost: belongs to the main Ractor: elsewhere ask lease.lost?")
          end
          check_raising(block_given) if value == :raise
          value
        end

        # @param unable [Array<Symbol>] the abilities that the store lacks
        def release(value, unable)
          if value == :background && unable.include?(:background_release)
            unsupported(
              "release: :background is for stores on Redis: here a release waits for its answer"
            )
          end
          return value if RELEASE.include?(value)

          raise ArgumentError, "release: must be :wait or :background (got #{value.inspect})"
        end

        # @param unable [Array<Symbol>] the abilities that the store lacks
        def replicas(value, unable)
          if !value.eql?(0) && unable.include?(:replicas)
            unsupported("replicas: is for stores on Redis: here no replica confirms a lease")
          end
          return value if value.is_a?(Integer) && REPLICAS.cover?(value)

          raise ArgumentError,
                "replicas: must be an Integer from 0 to #{REPLICAS.last} (got #{value.inspect})"
        end

        def on_error(value)
          return value if ON_ERROR.include?(value)

          raise ArgumentError, "on_error: must be :release or :keep (got #{value.inspect})"
        end

        def label(value)
          text = value.is_a?(Symbol) ? value.name : value
          unless text.is_a?(String)
            raise ArgumentError, "label: must be a String or Symbol (got #{value.class})"
          end

          text = text.encode(Encoding::UTF_8)
          raise ArgumentError, "label: must be text in its encoding" unless text.valid_encoding?
          return text if text.bytesize.between?(1, LABEL_MAX_BYTES)

          raise ArgumentError,
                "label: must be from 1 to #{LABEL_MAX_BYTES} bytes (got #{text.bytesize})"
        rescue EncodingError
          raise ArgumentError, "label: must be text that UTF-8 can represent"
        end

        # Makes a label from any text, for APIs whose callers pass no label.
        #
        # @param text [String] of any bytes and length
        # @return [String] a valid label
        def shortened_label(text)
          text.b.byteslice(0, LABEL_MAX_BYTES).force_encoding(Encoding::UTF_8).scrub("?")
        end

        private

        def seconds(name, value, least)
          number = value.to_f if value.is_a?(Numeric) && value.real?
          return number if number && number >= least && number <= SPAN_MAX

          raise ArgumentError,
                "#{name} must be from #{least} to #{SPAN_MAX.to_i} seconds (got #{value.inspect})"
        end

        # Refuses `on_lost: :raise` under a Fiber scheduler, where Thread#raise might interrupt
        # another fiber than the caller's, or the reactor. Refuses it in a signal handler, too,
        # because {LossAlarm} locks a mutex, which a signal handler must not do.
        def check_raising(block_given)
          raise ArgumentError, "on_lost: :raise needs a block to raise in" unless block_given

          unless Fiber.scheduler.nil?
            unsupported(
              "on_lost: :raise cannot single out one fiber of a thread: " \
                "pass a callable, or ask lease.lost?"
            )
          end
          return unless Background.signal_handler?

          unsupported(
            "on_lost: :raise cannot be used in a signal handler: " \
              "pass a callable, or ask lease.lost?"
          )
        end

        def unsupported(message)
          raise UnsupportedError, message
        end
      end
    end
  end
end
