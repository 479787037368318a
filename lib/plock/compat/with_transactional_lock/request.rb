# frozen_string_literal: true

require "digest"

module WithTransactionalLock
  # What one call asks for.
  #
  # @api private
  class Request
    # Of a name is shown at most so much.
    SHOWN = 100

    # @return [String]
    attr_reader :name

    # @return [Integer] by which the database knows the lock, 64 bits with a sign
    attr_reader :id

    # @return [Float, nil] seconds
    attr_reader :timeout

    # @return [Boolean]
    attr_reader :shared

    # @return [String] the name as it can stand in an SQL comment: nothing but ASCII, and nothing that would end the comment or begin
    #   another one
    attr_reader :comment

    # What a name comes to, so that one that is often used is not digested each time.
    KNOWN_MAX = 1000
    @known = {}

    # @param name [String]
    # @return [Array(Integer, String)] id and comment
    def self.known(name)
      @known[name] || begin
        @known = {} if @known.size >= KNOWN_MAX
        @known[name.dup.freeze] = [Digest::SHA256.digest(name).unpack1("q<"),
                                   name.byteslice(0, SHOWN).b.gsub(/[^ -~]|\*/n, "?").force_encoding(Encoding::US_ASCII)].freeze
      end
    end

    # @raise [TypeError]
    # @raise [ArgumentError]
    def initialize(name, timeout, shared)
      @name = String.try_convert(name) or raise TypeError, "the name of a lock must be a String (got #{name.class})"
      @id, @comment = Request.known(@name)
      @timeout = timeout && Plock::Locking::Arguments.span("timeout:", timeout)
      @shared = shared
      return if shared == true || shared == false

      raise ArgumentError, "shared: must be true or false (got #{shared.inspect})"
    end

    # @return [Plock::TimeoutError]
    def late
      Plock::TimeoutError.new("could not acquire the transactional lock #{comment.inspect} within #{timeout} s", code: :timed_out)
    end
  end
end
