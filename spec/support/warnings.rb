# frozen_string_literal: true

module Support
  # An example fails if it causes a warning that it does not expect:
  #
  #   expect(warnings { Parse::Lock.acquire("k") { } }).to contain_exactly(/process-local/)
  #   expect { ... }.to output(/process-local/).to_stderr
  #
  # Warnings of other gems are ignored, because plock cannot fix them.
  module Warnings
    class Unexpected < StandardError; end

    OURS = File.expand_path("../..", __dir__)
    PLACE = /\A(?<file>[^\s:]+\.rb):\d+: warning: /

    @mutex = Mutex.new
    @unexpected = []
    @left = []

    class << self
      # @return [Array<String>] the warnings of all threads while the block runs
      def capture
        caught = []
        before, @caught = @caught, caught
        yield
        caught
      ensure
        @caught = before
      end

      def meet(message)
        return if left?(message)
        return @mutex.synchronize { @caught << message } if @caught
        return if foreign?(message)

        @mutex.synchronize { @unexpected << message }
        raise Unexpected, message
      end

      # The unexpected warnings since the last call. Each has also raised an exception, but a
      # `rescue` or an `ensure` may have swallowed it.
      def unexpected
        @mutex.synchronize { @unexpected.dup.tap { @unexpected.clear } }
      end

      # Remembers the leases that a failed example has left unreleased. The garbage collector may
      # find such a lease during a later example. Its warning must not fail that example.
      def pass_over_leases
        leases = ObjectSpace.each_object(Plock::Lease).select(&:hold)
        @left |= leases.map { |lease| "#{lease.store_key} (fence #{lease.fence})" }
      end

      private

      def left?(message) = @left.any? { |lease| message.include?(lease) }

      def foreign?(message)
        place = message.match(PLACE)
        place && !File.expand_path(place[:file]).start_with?("#{OURS}/")
      end
    end

    # Runs before Warning.warn, which both Kernel#warn and Ruby itself call.
    module Hook
      def warn(message, category: nil)
        return super unless $stderr.equal?(STDERR) # the example captures the warning itself

        Warnings.meet(message)
      end
    end

    def self.install = Warning.singleton_class.prepend(Hook)
  end
end
