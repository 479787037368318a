# frozen_string_literal: true

require "digest"

module WithTransactionalLock
  # The request of one call. `id` is the lock's number in the database, 64 bits with a sign.
  # `comment` is its name as it can stand in an SQL comment: ASCII, and nothing that begins or ends
  # one. `timeout` is in seconds, or nil.
  #
  # @api private
  class Request < Struct.new(:id, :comment, :timeout, :shared)
    # Of a name is shown at most so much.
    SHOWN = 100

    # So many requests that say no more than a name are remembered, where the name has at most so
    # many bytes.
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

    # @yieldreturn [String] the statement that asks for the lock, which is made once
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
