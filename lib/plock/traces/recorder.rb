# frozen_string_literal: true

require_relative "../events/recording"

module Plock
  module Traces
    # Makes spans of the events of leases. {Traces.start} returns it.
    #
    # A forked child makes spans of its own leases only.
    class Recorder
      include Events::Recording

      # The events, and what handles them.
      #
      # @api private
      HANDLERS = {
        contended: :contended, acquire: :acquired, timeout: :timed_out, wait_end: :call_ended,
        adopt: :hold, release: :released, hand_over: :handed_over, lost: :lost, renew: :renewed,
        release_failed: :release_failed, abandoned: :abandoned
      }.freeze

      # The span of a lease that is held, and the key that it is on.
      Hold = Struct.new(:span, :key, :fence)

      # The last lease of a key that has ended: its span, and when.
      Ended = Struct.new(:context, :at)

      # The keys whose last lease is remembered, for links of waiters that get the key after it.
      KEYS_MAX = 1000

      # The links of a span. A semaphore may have thousands of holders.
      LINKS_MAX = 8

      # The variable in which a fiber notes that others held the key of its call.
      CONTENDED = :plock_contended

      private_constant :Hold, :Ended, :KEYS_MAX, :LINKS_MAX, :CONTENDED

      # @api private
      # @param tracer [OpenTelemetry::Trace::Tracer]
      # @param root_spans [Boolean] also where there is no current span?
      # @param labels [Boolean] do spans have the labels?
      def initialize(tracer, root_spans: true, labels: true)
        @tracer = tracer
        @root_spans = root_spans
        @labels = labels
        @lock = Mutex.new
        @recording = false
      end

      # Makes no more spans, and ends those of the leases that are held.
      #
      # @return [Boolean] did it make spans?
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
      # @param event [Events::Event]
      # @return [void]
      def call(event)
        record(event)
      end

      # @return [String]
      def inspect = "#<#{self.class}>"

      private

      # The spans of the parent's leases are the parent's.
      def start_afresh
        @holds = {}
        @ids = Hash.new { |ids, key| ids[key] = [] }
        @ended = {}
      end

      def contended(event)
        Thread.current[CONTENDED] = key_of(event) # this fiber's next event is about its outcome
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

      # The lease is gone, and its number with it.
      def abandoned(event)
        id = @ids.fetch(key_of(event), []).find { |each| @holds[each].fence == event.fence }
        finish(id) { |span| mark(span, "the lease was collected without a release") }
      end

      def contended?(event)
        key, Thread.current[CONTENDED] = Thread.current[CONTENDED], nil
        key == key_of(event)
      end

      def key_of(event) = [event.key_digest, event.kind]

      # @param contended [Boolean] did other callers have the key?
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

      # To those that have the key now, and to the last one that had it since the call began.
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
        forget(hold.key, lease_id)
        remember(hold)
        yield hold.span if block_given?
        hold.span.finish
      end

      def forget(key, lease_id)
        @ids[key].delete(lease_id)
        @ids.delete(key) if @ids[key].empty?
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
