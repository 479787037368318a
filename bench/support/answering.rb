# frozen_string_literal: true

require "json"
require_relative "bench"

module Bench
  # A process that reads orders from its standard input, and answers with lines of JSON. The class
  # that includes this module has a contestant and a method #run.
  module Answering
    # Runs the worker if `program` is the file with which Ruby was started.
    def self.begin(program, worker)
      return unless $PROGRAM_NAME == program

      # Ctrl-C also reaches this process. It ends without a message, because run.rb reports the
      # interrupt.
      Signal.trap("INT", "SYSTEM_DEFAULT")
      name, port, socket = ARGV
      worker.new(Bench.contestants.fetch(name), Bench::Address.new(Integer(port), socket)).run
    end

    private

    def versions
      loaded = @contestant.gems.to_h { |name| [name, Gem.loaded_specs.fetch(name).version.to_s] }
      loaded["plock"] = Plock::VERSION if @contestant.ours?
      loaded
    end

    def answer(values)
      $stdout.puts(JSON.generate(values))
      $stdout.flush
    end
  end
end
