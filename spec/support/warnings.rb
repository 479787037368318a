# frozen_string_literal: true

module Support
  # A warning fails the example that causes it, unless it is expected:
  #
  #   expect(warnings { Parse::Lock.acquire("k") { } }).to contain_exactly(/process-local/)
  #   expect { ... }.to output(/process-local/).to_stderr
  #
  # Warnings of other gems are not ours to fix and are passed over.
  module Warnings
    class Unexpected < StandardError; end

    OURS = File.expand_path("../..", __dir__)
    PLACE = /\A(?<file>[^\s:]+\.rb):\d+: warning: /

    @mutex = Mutex.new
    @unexpected = []
    @left = []

    class << self
      # The block's warnings, from every thread, one String per warning.
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

      # Those that were raised since the last call. An `ensure` or a rescue may have swallowed the
      # exception.
      def unexpected
        @mutex.synchronize { @unexpected.dup.tap { @unexpected.clear } }
      end

      # An example that failed can leave a lease unreleased. The garbage collector finds it later:
      # no example hears the warning about it.
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

    # In front of Warning.warn, where Kernel#warn and Ruby's own warnings arrive.
    module Hook
      def warn(message, category: nil)
        return super unless $stderr.equal?(STDERR) # an example captures it, and judges it

        Warnings.meet(message)
      end
    end

    def self.install = Warning.singleton_class.prepend(Hook)
  end
end
