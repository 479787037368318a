# frozen_string_literal: true

require "digest"

module WithTransactionalLock
  # The arguments of one call. `id` is the lock's number in the database, a signed integer of 64
  # bits. `comment` is the lock's name as an SQL comment shows it: in ASCII, without the
  # characters that begin or end a comment. `timeout` is in seconds; nil means that only the
  # database's own timeouts apply.
  #
  # @api private
  class Request < Struct.new(:id, :comment, :timeout, :shared)
    # An SQL comment shows at most this many bytes of a name.
    SHOWN = 100

    # The maximum number of remembered requests, and the longest name of a remembered request, in
    # bytes. Only requests without `timeout` and `shared` are remembered.
    KNOWN_MAX = 1000
    KNOWN_BYTES = 256

    private_constant :SHOWN, :KNOWN_MAX, :KNOWN_BYTES

    @known = {}

    class << self
      def of(name, timeout, shared)
        plain = @known[name] || plain(name)
        return plain if timeout.nil? && shared == false

        unless shared == true || shared == false
          raise ArgumentError, "shared: must be true or false (got #{shared.inspect})"
        end

        new(
          plain.id, plain.comment, timeout && Plock::Locking::Arguments.span("timeout:", timeout),
          shared
        )
      end

      private

      def plain(any)
        name = String.try_convert(any) or
          raise TypeError, "the name of a lock must be a String (got #{any.class})"
        request = new(Digest::SHA256.digest(name).unpack1("q<"), comment(name), nil, false)
        return request if name.bytesize > KNOWN_BYTES

        @known = {} if @known.size >= KNOWN_MAX
        @known[name] = request
      end

      def comment(name)
        name.byteslice(0, SHOWN).b.gsub(/[^ -~]|\*/n, "?").force_encoding(Encoding::UTF_8)
      end
    end

    # @yieldreturn [String] the statement that acquires the lock; this object calls the block only
    #   once for each kind
    def statement(kind)
      (@statements ||= {})[kind] ||= yield.freeze
    end

    def late
      Plock::TimeoutError.new(
        "could not acquire the transactional lock #{comment.inspect} within #{timeout} s",
        code: :timed_out
      )
    end
  end
end
