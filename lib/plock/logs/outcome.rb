# frozen_string_literal: true

require_relative "../plain_text"

module Plock
  module Logs
    # Describes an event for the reader of a log, and formats its line. Both the structured log
    # and the Rails log use this class.
    #
    # @api private
    class Outcome
      # For each event: its name in the log, its level, and the name of its duration.
      EVENTS = {
        acquire: [:acquired, :debug, :waited], release: [:released, :debug, :held],
        adopt: [:adopted, :debug, nil], hand_over: [:handed_over, :debug, nil],
        timeout: [:timeout, :info, :waited], wait_end: [:failed, :warn, :waited],
        renew: [:renewal_late, :warn, nil], release_failed: [:release_failed, :warn, :held],
        abandoned: [:abandoned, :warn, nil], lost: [:lost, :error, :held]
      }.freeze

      # The event details that do not appear in the log.
      LEFT_OUT = %i[released late outcome keys].freeze

      DIGITS = 12

      # Characters that must be escaped in a quoted value.
      SPECIAL = /["\\]|#{PlainText::MISLEADING}/.freeze

      # Matches a value that needs quotes.
      QUOTED = /[ =]|\A\z|#{SPECIAL}/.freeze

      private_constant :LEFT_OUT, :DIGITS, :QUOTED, :SPECIAL

      class << self
        # The end of a call is an outcome only if the call failed, because other events report a
        # success or a timeout. The release of a lost lease is not an outcome, because the loss
        # has been logged.
        #
        # @return [Outcome, nil] nil: the event is not an outcome
        def of(event, **settings)
          outcome =
            case event.name
            when :wait_end then event.details[:outcome] == :failed
            when :renew then event.details[:late]
            when :release then event.details[:released]
            else EVENTS.key?(event.name)
            end
          new(event, **settings) if outcome
        end

        # @return [String] in logfmt
        def line(fields) = fields.map { |name, value| "#{name}=#{quoted(value)}" }.join(" ")

        # @return [String] on one line
        def quoted(value)
          text = value.is_a?(Float) ? format("%.6f", value).sub(/\.?0+\z/, "") : value.to_s
          text = PlainText.utf8(text)
          return text unless QUOTED.match?(text)

          inside = text.gsub(SPECIAL) do |char|
            %w[" \\].include?(char) ? "\\#{char}" : format("\\u%04x", char.ord)
          end
          "\"#{inside}\""
        end
      end

      attr_reader :name

      # @return [Symbol] the level of the outcome, regardless of its remark
      attr_reader :level

      # @return [Symbol, nil] `:slow` for a wait, `:long` for a hold; nil: below the threshold
      attr_reader :remark

      # @param slow_wait [Float, nil] seconds
      # @param long_hold [Float, nil] seconds
      def initialize(event, log_keys:, slow_wait:, long_hold:, **)
        @event = event
        @log_keys = log_keys
        @name, @level, @span = EVENTS.fetch(event.name)
        @level = :info if event.details[:expired]
        @remark = remark_on(event, slow_wait, long_hold)
      end

      # @return [Float, nil] seconds; nil: the outcome has no duration, or the duration is unknown
      #   because the event has no lease ID
      def duration
        @event.duration if @span && (@span == :waited || @event.lease_id)
      end

      # @return [Hash{Symbol => Object}] the fields of the log line
      def fields
        fields = { event: name, label: @event.label, kind: @event.kind }
        fields[:digest] = @event.key_digest[0, DIGITS]
        fields[:key] = @event.key if @log_keys
        fields[@span] = duration if @span
        fields[:fence] = @event.fence
        fields.update(@event.details.except(*LEFT_OUT))
        fields[:error] ||= :interrupted if name == :failed
        fields[remark] = true if remark
        fields.compact
      end

      # @return [Hash{Symbol => Object}] the {#fields} that follow {#subject} in a line for people
      def details = fields.except(:event, :label, :digest, :key, @span)

      # @return [String] the label and the key; if there is neither, the digest
      def subject
        told = fields.values_at(:label, :key).compact.uniq
        told.empty? ? "key #{fields[:digest]}" : told.map { |each| Outcome.quoted(each) }.join(" ")
      end

      private

      def remark_on(event, slow_wait, long_hold)
        case event.name
        when :acquire, :timeout then :slow if slow_wait && event.duration >= slow_wait
        when :release then :long if long_hold && event.duration >= long_hold
        end
      end
    end
  end
end
