# frozen_string_literal: true

require_relative "../events/recording"

module Plock
  module Traces
    # Makes spans from the events of leases. {Traces.start} returns a recorder.
    #
    # A forked child makes spans only for its own leases.
    class Recorder
      include Events::Recording

      # The method that handles each event.
      #
      # @api private
      HANDLERS = {
        contended: :contended, acquire: :acquired, timeout: :timed_out, wait_end: :call_ended,
        adopt: :hold, release: :released, hand_over: :handed_over, lost: :lost, renew: :renewed,
        release_failed: :release_failed, abandoned: :abandoned
      }.freeze

      # The span of a held lease, with its key and fence.
      Hold = Struct.new(:span, :key, :fence)

      # For one key, the lease that ended last: its span's context, and the time when it ended.
      Ended = Struct.new(:context, :at)

      # The recorder remembers the last lease of at most this many keys, so that the spans of
      # waiters can link to it.
      KEYS_MAX = 1000

      # A span links to at most this many present holders, because a semaphore may have thousands.
      LINKS_MAX = 8

      # The fiber-local variable with the key that this fiber has asked for, if others held the key.
      CONTENDED = :plock_contended

      private_constant :Hold, :Ended, :KEYS_MAX, :LINKS_MAX, :CONTENDED

      # @api private
      # @param root_spans [Boolean] are spans made even if there is no current span?
      # @param labels [Boolean] do spans show the labels?
      def initialize(tracer, root_spans: true, labels: true)
        @tracer = tracer
        @root_spans = root_spans
        @labels = labels
        @lock = Mutex.new
        @recording = false
      end

      # Stops making spans, and ends the spans of held leases.
      #
      # @return [Boolean] was this recorder making spans?
      def stop
        Events.remove(self)
        spans, was = enter do
          [@holds.values.map(&:span), @recording].tap do
            start_afresh
            @recording = false
          end
        end
        spans.each(&:finish)
        was
      end

      # @api private
      def call(event)
        record(event)
      end

      # @return [String]
      def inspect = "#<#{self.class}>"

      private

      # Forgets all spans. The spans of a parent's leases belong to the parent.
      def start_afresh
        @holds = {}
        @ids = Hash.new { |ids, key| ids[key] = [] }
        @ended = {}
      end

      def contended(event)
        Thread.current[CONTENDED] = key_of(event) # this fiber's next event reports the outcome
      end

      def acquired(event)
        contended = contended?(event)
        span = span_of_call(event, contended, "plock.contended" => contended)
        span.finish
        hold(event)
      end

      def timed_out(event)
        span = span_of_call(event, contended?(event), "plock.wait" => event.details[:wait])
        mark(span, "timed out after #{event.details[:wait]} s")
        span.finish
      end

      def call_ended(event)
        Thread.current[CONTENDED] = nil
        return unless event.details[:outcome] == :failed

        error = event.details[:error]
        span = span_of_call(event, false, error ? { "error.type" => error } : {})
        mark(span, error || "interrupted")
        span.finish
      end

      def released(event) = finish(event.lease_id)

      def handed_over(event)
        finish(event.lease_id) { |span| span.add_event("plock.hand_over") }
      end

      def lost(event)
        finish(event.lease_id) { |span| mark(span, "the lease was lost") }
      end

      def release_failed(event)
        finish(event.lease_id) do |span|
          span.set_attribute("error.type", event.details[:error]) if event.details[:error]
          mark(span, "the release failed")
        end
      end

      def renewed(event)
        return unless event.details[:late]

        @holds[event.lease_id]&.span&.add_event(
          "plock.late_renewal", attributes: { "plock.left" => event.details[:left] }
        )
      end

      # The lease was garbage-collected, so its ID is unknown. The fence identifies the lease.
      def abandoned(event)
        id = @ids.fetch(key_of(event), []).find { |each| @holds[each].fence == event.fence }
        finish(id) { |span| mark(span, "the lease was collected without a release") }
      end

      def contended?(event)
        key, Thread.current[CONTENDED] = Thread.current[CONTENDED], nil
        key == key_of(event)
      end

      def key_of(event) = [event.key_digest, event.kind]

      # @param contended [Boolean] was the key held by other callers?
      def span_of_call(event, contended, attributes)
        began = Time.now - event.duration
        start_span(
          "plock.acquire", start_timestamp: began, attributes: attributes_of(event, attributes),
                           links: contended ? links(event, began) : nil
        )
      end

      def hold(event)
        key = key_of(event)
        span = start_span("plock.hold", attributes: attributes_of(event, {}))
        @holds[event.lease_id] = Hold.new(span, key, event.fence)
        @ids[key] << event.lease_id
      end

      def start_span(name, **options)
        trace = ::OpenTelemetry::Trace
        return trace::Span::INVALID unless @root_spans || trace.current_span.context.valid?

        @tracer.start_span(name, **options)
      end

      # Links to the spans of the present holders, and to the last holder's span if its lease has
      # ended since the call began.
      def links(event, began)
        key = key_of(event)
        others = @ids.fetch(key, []).first(LINKS_MAX).map { |id| @holds[id].span.context }
        last = @ended[key]
        others.unshift(last.context) if last && last.at >= began
        others.filter_map { |context| ::OpenTelemetry::Trace::Link.new(context) if context.valid? }
      end

      def attributes_of(event, more)
        {
          "plock.kind" => event.kind.to_s, "plock.key_digest" => event.key_digest,
          "plock.label" => (event.label if @labels), "plock.fence" => event.fence,
          "plock.mode" => event.details[:mode]&.to_s, **more
        }.compact
      end

      # @yieldparam span [OpenTelemetry::Trace::Span] before it ends
      def finish(lease_id)
        hold = @holds.delete(lease_id) or return
        @ids[hold.key].delete(lease_id)
        @ids.delete(hold.key) if @ids[hold.key].empty?
        remember(hold)
        yield hold.span if block_given?
        hold.span.finish
      end

      def remember(hold)
        @ended.delete(hold.key)
        @ended[hold.key] = Ended.new(hold.span.context, Time.now)
        @ended.shift if @ended.size > KEYS_MAX
      end

      def mark(span, description)
        span.status = ::OpenTelemetry::Trace::Status.error(description)
      end
    end
  end
end
