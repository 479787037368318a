# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "doctor/connection"
require_relative "doctor/elsewhere"
require_relative "doctor/host"
require_relative "doctor/memory"
require_relative "doctor/rights"
require_relative "doctor/secret"
require_relative "doctor/server"
require_relative "doctor/surroundings"
require_relative "paint"

module Plock
  module CLI
    # `plock doctor`
    class DoctorCommand < Command
      NAME = "doctor"
      USAGE = "[options]"
      CHECKS = [
        Doctor::Version, Doctor::Role, Doctor::Encryption, Doctor::RoundTrip, Doctor::Eviction,
        Doctor::Persistence, Doctor::Replication, Doctor::Rights, Doctor::Trial, Doctor::Clocks,
        Doctor::Descriptors, Doctor::Secret
      ].freeze
      CHECKS_HERE = [
        Doctor::Place, Doctor::FileSystem, Doctor::Trial, Doctor::Descriptors, Doctor::Secret
      ].freeze
      CHECKS_ELSEWHERE = [Doctor::Unseen, Doctor::Trial, Doctor::Descriptors, Doctor::Secret].freeze
      ALL = (CHECKS | CHECKS_HERE | CHECKS_ELSEWHERE).freeze
      DESCRIPTION = <<~TEXT
        Checks what a store can promise in its present configuration, and says what to change. It
        acquires a lock of its own for a moment.
        Exit status: 1 if a finding endangers exclusion and is not accepted; 69 if the store cannot
        be asked.
        Checks: #{CHECKS.map { |check| check::NAME.tr(" ", "-") }.join(", ")};
        of a local store #{CHECKS_HERE.map { |check| check::NAME.tr(" ", "-") }.join(", ")};
        of any other #{CHECKS_ELSEWHERE.map { |check| check::NAME.tr(" ", "-") }.join(", ")}.
        That others use another secret is never accepted.
      TEXT

      LOOKS = {
        fine: ["ok", :green], advice: ["advice", :yellow], danger: ["DANGER", :red],
        unknown: ["unknown", :yellow]
      }.freeze
      PROBE = "plock doctor" # a key that need not be held
      private_constant :LOOKS, :PROBE

      def initialize(arguments)
        super
        @accepted = []
      end

      private

      def define(options)
        options.on(
          "--accept CHECKS", "checks whose findings to ignore, such as persistence,replication"
        ) { |text| @accepted.concat(text.split(",")) }
        json_option(options)
      end

      def take(operands)
        raise usage("no key is needed (got #{operands.first.inspect})") if operands.any?

        unknown = @accepted - ALL.map { |check| name_of(check::NAME) }
        raise usage("there is no check #{unknown.first.inspect}") if unknown.any?
      end

      def call
        findings = examine
        @json ? print_json(findings) : print_text(findings)
        findings.any? { |finding| counts?(finding) } ? ExitStatus::ENDANGERED : ExitStatus::OK
      end

      def examine
        case store
        when LocalStore then run_checks(CHECKS_HERE, Doctor::Elsewhere.new(store))
        when Store then examine_server
        else examine_elsewhere
        end
      end

      def examine_server
        server = Doctor::Server.new(store)
        server.ask("TIME") # a user that may lock may call TIME
        run_checks(CHECKS, server)
      end

      def examine_elsewhere
        # raises if the store cannot be used
        store.examine(store.profile.store_key(PROBE), false)
        run_checks(CHECKS_ELSEWHERE, Doctor::Elsewhere.new(store))
      end

      def run_checks(checks, subject)
        checks.map { |check| check.run(subject) }
      end

      def name_of(check)
        check.tr(" ", "-")
      end

      def counts?(finding)
        finding.danger? &&
          (finding.check == Doctor::Secret::NAME || !@accepted.include?(name_of(finding.check)))
      end

      def print_text(findings)
        $stdout.puts(store.url, "  #{described_origins}")
        findings.each do |finding|
          word, colour = LOOKS.fetch(finding.level)
          word = "accepted" if finding.danger? && !counts?(finding)
          $stdout.puts("  #{Paint.colour(word.ljust(9), colour)}#{finding.check}: " \
                       "#{Description.printable(finding.message)}")
          $stdout.puts("           #{finding.remedy}") if finding.remedy
        end
      end

      # @return [Hash{Symbol => Hash}] the settings, and the origin of each
      def origins
        profile = store.profile
        told = settings_origins
        {
          store: {
            from: told.dig(:store, :from)
          },
          namespace: {
            name: profile.namespace, from: told.dig(:namespace, :from)
          },
          secret: {
            fingerprint: profile.fingerprint,
            from: told.dig(:secret, :from) || profile.secret_origin
          }
        }
      end

      # @return [Hash{Symbol => Hash}] see {Settings#origins}
      def settings_origins
        settings.origins
      end

      def described_origins
        from = -> (told) { " from #{told[:from]}" if told[:from] }
        told = origins
        [
          "store#{from.call(told[:store])}",
          (
            if told[:namespace][:name]
              "namespace #{told[:namespace][:name]}#{from.call(told[:namespace])}"
            else
              "no namespace"
            end
          ),
          (
            if told[:secret][:from]
              "secret#{from.call(told[:secret])}, fingerprint #{told[:secret][:fingerprint]}"
            else
              "no secret"
            end
          )
        ].join("; ")
      end

      def print_json(findings)
        told = findings.map do |finding|
          finding.to_h.transform_values { |value| value.is_a?(String) ? value.scrub : value }
            .merge(check: name_of(finding.check), accepted: finding.danger? && !counts?(finding))
        end
        $stdout.puts(
          json(
            store: store.url, settings: origins,
            sound: findings.none? { |finding| counts?(finding) }, findings: told
          )
        )
      end
    end
  end
end
