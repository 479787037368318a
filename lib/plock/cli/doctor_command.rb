# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "doctor/connection"
require_relative "doctor/host"
require_relative "doctor/memory"
require_relative "doctor/rights"
require_relative "doctor/server"
require_relative "doctor/surroundings"
require_relative "paint"

module Plock
  module CLI
    # `plock doctor`
    class DoctorCommand < Command
      NAME = "doctor"
      USAGE = "[options]"
      CHECKS = [Doctor::Version, Doctor::Role, Doctor::Encryption, Doctor::RoundTrip, Doctor::Eviction, Doctor::Persistence,
                Doctor::Replication, Doctor::Rights, Doctor::Trial, Doctor::Clocks, Doctor::Descriptors, Doctor::Secret].freeze
      CHECKS_HERE = [Doctor::Place, Doctor::FileSystem, Doctor::Trial, Doctor::Descriptors, Doctor::Secret].freeze
      DESCRIPTION = <<~TEXT
        Says what a store can and cannot promise as it is set up, and what to do about it. It takes a lock of its own for a moment.
        Exit status: 1 where something endangers exclusion, unless it is accepted; 69 where the store cannot be asked at all.
        Checks: #{CHECKS.map { |check| check::NAME.tr(" ", "-") }.join(", ")};
        of a local store #{CHECKS_HERE.map { |check| check::NAME.tr(" ", "-") }.join(", ")}.
      TEXT

      LOOKS = { fine: ["ok", :green], advice: ["advice", :yellow], danger: ["DANGER", :red], unknown: ["unknown", :yellow] }.freeze
      private_constant :LOOKS

      def initialize(arguments)
        super
        @accepted = []
      end

      private

      def define(options)
        options.on("--accept CHECKS", "what is known and does not count, as persistence,replication") do |text|
          @accepted.concat(text.split(","))
        end
        json_option(options)
      end

      def take(operands)
        raise usage("no key is needed (got #{operands.first.inspect})") if operands.any?

        unknown = @accepted - (CHECKS | CHECKS_HERE).map { |check| name_of(check::NAME) }
        raise usage("there is no check #{unknown.first.inspect}") if unknown.any?
      end

      def call
        findings = store.is_a?(LocalStore) ? examine_here : examine_server
        @json ? print_json(findings) : print_text(findings)
        findings.any? { |finding| counts?(finding) } ? ExitStatus::ENDANGERED : ExitStatus::OK
      end

      def examine_server
        server = Doctor::Server.new(store)
        server.ask("TIME") # everybody may who may lock
        CHECKS.map { |check| check.run(server) }
      end

      def examine_here
        host = Doctor::Host.new(store)
        CHECKS_HERE.map { |check| check.run(host) }
      end

      def name_of(check)
        check.tr(" ", "-")
      end

      def counts?(finding)
        finding.danger? && !@accepted.include?(name_of(finding.check))
      end

      def print_text(findings)
        $stdout.puts(store.url)
        findings.each do |finding|
          word, colour = LOOKS.fetch(finding.level)
          word = "accepted" if finding.danger? && !counts?(finding)
          $stdout.puts("  #{Paint.colour(word.ljust(9), colour)}#{finding.check}: #{Description.printable(finding.message)}")
          $stdout.puts("           #{finding.remedy}") if finding.remedy
        end
      end

      def print_json(findings)
        told = findings.map do |finding|
          finding.to_h.transform_values { |value| value.is_a?(String) ? value.scrub : value }
            .merge(check: name_of(finding.check), accepted: finding.danger? && !counts?(finding))
        end
        $stdout.puts(json(store: store.url, sound: findings.none? { |finding| counts?(finding) }, findings: told))
      end
    end
  end
end
