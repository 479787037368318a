# frozen_string_literal: true

require_relative "finding"

module Plock
  module CLI
    module Doctor
      # One check of the doctor. A subclass has a NAME, and a {#look} that returns the finding.
      class Check
        READER = "call plock doctor with --store and a user that may do INFO and CONFIG GET"
        private_constant :READER

        def self.run(server) = new(server).look

        def initialize(server)
          @server = server
        end

        private

        attr_reader :server

        def fine(message) = Finding.new(self.class::NAME, :fine, message, nil)

        def advice(message, remedy) = Finding.new(self.class::NAME, :advice, message, remedy)

        def danger(message, remedy) = Finding.new(self.class::NAME, :danger, message, remedy)

        def unknown(what, remedy = READER)
          Finding.new(
            self.class::NAME, :unknown,
            "#{what} could not be asked: this user may not, or the server does not tell", remedy
          )
        end
      end
    end
  end
end
