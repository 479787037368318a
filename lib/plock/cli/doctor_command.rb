# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "doctor/examination"
require_relative "paint"

module Plock
  module CLI
    # `plock doctor`
    class DoctorCommand < Command
      NAME = "doctor"
      USAGE = "[options]"

      def self.names_of(checks) = checks.map { |check| check::NAME.tr(" ", "-") }.join(", ")
      private_class_method :names_of

      DESCRIPTION = <<~TEXT
        Checks what a store can promise in its present configuration, and says what to change. It
        acquires a lock of its own for a moment.
        Exit status: 1 if a finding endangers exclusion and is not accepted; 69 if the store cannot
        be asked.
        Checks: #{names_of(Doctor::Examination::ON_SERVER)};
        of a cluster also #{names_of(Doctor::Examination::ONLY_OF_CLUSTER)};
        of a local store #{names_of(Doctor::Examination::HERE)};
        of any other #{names_of(Doctor::Examination::ELSEWHERE)}.
        That others use another secret is never accepted.
      TEXT

      LOOKS = {
        fine: ["ok", :green], advice: ["advice", :yellow], danger: ["DANGER", :red],
        unknown: ["unknown", :yellow]
      }.freeze

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
        take_none(operands)

        unknown = @accepted - Doctor::Examination::ALL.map { |check| name_of(check::NAME) }
        raise usage("there is no check #{unknown.first.inspect}") if unknown.any?
      end

      def call
        findings = Doctor::Examination.of(store)
        @json ? print_json(findings) : print_text(findings)
        findings.any? { |finding| counts?(finding) } ? ExitStatus::ENDANGERED : ExitStatus::OK
      end

      def name_of(check) = check.tr(" ", "-")

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
        config = store.config
        told = settings_origins
        {
          store: { from: told[:store] },
          namespace: { name: config.namespace, from: told[:namespace] },
          secret: {
            fingerprint: config.fingerprint, from: told[:secret] || config.secret_origin
          }
        }
      end

      # @return [Hash{Symbol => String, nil}] see {Settings#origins}
      def settings_origins = settings.origins

      def described_origins
        store, namespace, secret = origins.values_at(:store, :namespace, :secret)
        from = -> (told) { " from #{told[:from]}" if told[:from] }
        named = "namespace #{namespace[:name]}#{from.call(namespace)}" if namespace[:name]
        hashed = "secret#{from.call(secret)}, fingerprint #{secret[:fingerprint]}" if secret[:from]
        ["store#{from.call(store)}", named || "no namespace", hashed || "no secret"].join("; ")
      end

      def print_json(findings)
        told = findings.map do |finding|
          finding.to_h.merge(
            check: name_of(finding.check), accepted: finding.danger? && !counts?(finding)
          )
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
