# frozen_string_literal: true

module Plock
  class Web
    # The numbers of held keys and waiters in the last ten minutes, as this process's surveys saw
    # them.
    #
    # @api private
    class History
      SPAN_S = 600.0
      private_constant :SPAN_S

      # A moment, and the numbers of held keys and of waiters at that moment.
      Sample = Struct.new(:at, :held, :waiting)

      def initialize
        @samples = [].freeze
      end

      # @return [Array<Sample>] the oldest first
      attr_reader :samples

      def add(snapshot)
        oldest = snapshot.at - SPAN_S
        sample = Sample.new(snapshot.at, snapshot.held, snapshot.waiting).freeze
        @samples = [*@samples.reject { |known| known.at < oldest }, sample].freeze
      end
    end
  end
end
