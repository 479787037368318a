# frozen_string_literal: true

require_relative "../errors"
require_relative "arguments"
require_relative "fingerprint"
require_relative "kind"

module Plock
  module Locking
    # How a store names its locks, and the defaults of its calls.
    #
    # @api private
    class StoreConfig
      PREFIX = "plock:v1:"
      NAMESPACE = /\A[A-Za-z0-9_.-]{1,32}\z/
      SECRET_MIN_BYTES = 16
      SECRET_VARIABLE = "PLOCK_SECRET"

      # Matches a store key without its prefix.
      DIGEST = /\A(?:\h{64}|\h{8}\}\h{56})#{Regexp.union(Kind::ALL.map(&:suffix))}\z/.freeze

      # The options of {Store.open} that this class handles.
      OPTIONS = %i[namespace secret secret_origin ttl wait release logger].freeze

      # Seconds.
      DEFAULT_TTL = 10.0
      DEFAULT_WAIT = 5.0

      # The defaults if neither a call nor a store sets a value.
      DEFAULTS = Struct.new(:ttl, :wait, :release, :logger).new(
        DEFAULT_TTL, DEFAULT_WAIT, :wait, nil
      ).freeze

      attr_reader :prefix, :namespace, :fingerprint, :logger
      # @return [String, nil] where the secret was found; nil: there is no secret
      attr_reader :secret_origin
      # @return [Float] seconds
      attr_reader :ttl, :wait
      # @return [Symbol] `:wait` or `:background`
      attr_reader :release

      # Removes the OPTIONS from the Hash, and makes a configuration of them.
      def self.extract(options)
        new(**OPTIONS.to_h { |name| [name, options.delete(name)] }.compact)
      end

      def initialize(
        namespace: nil, secret: nil, secret_origin: "the configuration", ttl: DEFAULT_TTL,
        wait: DEFAULT_WAIT, release: :wait, logger: nil
      )
        @namespace = namespace && check_namespace(namespace).to_s.dup.freeze
        @prefix = namespace ? "#{PREFIX}#{@namespace}:" : PREFIX
        @secret = check_secret(secret || from_environment)
        @secret_origin = (secret ? secret_origin : SECRET_VARIABLE) if @secret
        @fingerprint = Fingerprint.of(@secret, @namespace)
        @ttl = Arguments.ttl(ttl)
        @wait = Arguments.span("wait:", wait)
        @release = Arguments.release(release, [])
        @logger = check_logger(logger)
        freeze
      rescue ArgumentError => e
        raise ConfigurationError, e.message
      end

      # @return [StoreConfig] a copy for a Redis Cluster, whose keys have a short hash tag.
      #   Servers compute a key's slot from its tag at every command, so a short tag saves time.
      def for_cluster = dup.begin_hash_tags.freeze

      # @param key [String, Symbol] as a caller names it
      # @return [String] the key's name in the store
      def store_key(key, kind = Kind::LOCK)
        Plock.store_key(@prefix, Arguments.key(key), @secret) << kind.suffix
      end

      # @return [PlainCalls] the settings with which the binding makes the calls of {Direct}
      def plain_calls(store)
        renewed, limited = [true, false].map { |renew| AcquireOptions.plain(store, renew) }
        PlainCalls.new(
          @prefix, @secret, @ttl, @wait, renewed, limited, @release == :background
        )
      end

      # @return [Boolean] is this the key of a lock of this namespace? The prefix alone does not
      #   show that, because a key of another namespace may begin with the same prefix.
      def own?(store_key)
        store_key.start_with?(@prefix) && DIGEST.match?(store_key.delete_prefix(@prefix))
      end

      def secret? = !@secret.nil?

      # @param kept [Fingerprint, nil] the fingerprint in the store; nil: the store keeps none
      # @return [Boolean] does the kept fingerprint match this secret? A missing one matches.
      def agrees?(kept) = kept.nil? || kept.value == @fingerprint

      # @return [String] for people: the source of the secret, but never the secret
      def described_secret
        secret? ? "fingerprint #{@fingerprint}, from #{@secret_origin}" : "no secret"
      end

      # @return [String] the namespace, as messages name it
      def described
        @namespace ? "namespace #{@namespace.inspect}" : "the namespace without a name"
      end

      # @return [String] without the secret
      def inspect = "#<#{self.class} #{@prefix.inspect}>"

      protected

      # Adds the opening brace of the keys' hash tags to the prefix. {Plock.store_key} adds the
      # closing brace to each key.
      def begin_hash_tags
        @prefix = "#{@prefix}{"
        self
      end

      private

      def from_environment
        value = ENV[SECRET_VARIABLE] or return
        return value unless value.empty?

        raise ArgumentError,
              "#{SECRET_VARIABLE} is empty, and keys hashed without a secret would be other " \
              "keys: set it to the secret that all processes share, or unset it if none is used"
      end

      def check_namespace(value)
        return value if (value.is_a?(String) || value.is_a?(Symbol)) && NAMESPACE.match?(value)

        raise ArgumentError,
              "namespace must be 1 to 32 of the characters A-Z a-z 0-9 _ . - (got #{value.inspect})"
      end

      # The message never shows the value.
      def check_secret(value)
        return if value.nil?
        return value.dup.freeze if value.is_a?(String) && value.bytesize >= SECRET_MIN_BYTES

        raise ArgumentError,
              "the secret must be a String of at least #{SECRET_MIN_BYTES} bytes, " \
              "as SecureRandom.hex(32) makes it"
      end

      def check_logger(value)
        return value if value.nil? || value.respond_to?(:warn)

        raise ArgumentError, "logger must answer to warn (got #{value.class})"
      end
    end
  end
end
