# frozen_string_literal: true

require "rack/query_parser" # Rack 2 loads it later
require_relative "../cli/description"
require_relative "../log"
require_relative "../survey/listing"
require_relative "protection"
require_relative "view"

module Plock
  class Web
    # Answers one request.
    #
    # @api private
    class Actions
      # Forbids inline scripts and styles, and anything from other origins. No other page may show
      # this one in a frame.
      POLICY = [
        "default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'",
        "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"
      ].join("; ").freeze
      HEADERS = {
        "content-type" => "text/html; charset=utf-8", "content-security-policy" => POLICY,
        "cache-control" => "no-store", "x-content-type-options" => "nosniff",
        "x-frame-options" => "DENY", "referrer-policy" => "same-origin"
      }.freeze

      # The errors for parameters that are nested too deeply, too long, truncated, or wrongly
      # encoded.
      UNREADABLE = [
        ::Rack::QueryParser::ParameterTypeError, ::Rack::QueryParser::InvalidParameterError,
        ::Rack::Multipart::MultipartPartLimitError, RangeError, EOFError, ArgumentError,
        *(::Rack::BadRequest if defined?(::Rack::BadRequest))
      ].freeze
      PROBLEMS = {
        changed: "The holder has changed since you opened this page. Nothing was done. " \
                 "Look again before you confirm.",
        free: "No process holds the key any more. Nothing was done."
      }.freeze
      LOCK = %r{\A/locks/([^/]+)(/break)?\z}
      private_constant :POLICY, :HEADERS, :UNREADABLE, :PROBLEMS, :LOCK

      # Ends a request with an error page.
      class Refusal < StandardError
        attr_reader :status, :title

        def initialize(status, title, message)
          super(message)
          @status = status
          @title = title
        end
      end
      private_constant :Refusal

      def initialize(web, request)
        @web = web
        @request = request
        @headers = HEADERS.dup
      end

      # @return [Array(Integer, Hash, Array<String>)]
      def response
        status, body = answer
        body = "" if @request.head?
        [status, @headers, [body]]
      end

      private

      def answer
        @parameters = texts { @request.GET }
        authorize(:view)
        @parameters = texts { @request.GET.merge(@request.POST) } if @request.post?
        @source = chosen_source
        perform
      rescue Refusal => e
        message(e.status, e.title, e.message)
      rescue UnsupportedError => e
        message(501, "This store cannot show that", e.message)
      rescue ConfigurationError => e
        message(409, "This process is set up in another way than others", e.message)
      rescue Error => e
        if e.answered?
          message(502, "The store answered with an error", e.message)
        else
          message(503, "The store does not answer", e.message, store_failed: true)
        end
      end

      def perform
        path = @request.path_info
        return act(:overview) if ["", "/"].include?(path)
        return act(:locks) if path == "/locks"
        return act(:doctor) if path == "/doctor"

        @store_key, breaking = LOCK.match(path)&.captures
        raise not_found unless @store_key

        @store_key = ::Rack::Utils.unescape_path(@store_key)
        raise not_found unless @source.survey.shows?(@store_key)
        return act(:lock) unless breaking

        @request.post? ? carry_out : act(:confirmation)
      end

      # Runs an action that changes nothing in the store. Refuses requests other than GET and HEAD.
      def act(action)
        return __send__(action) if @request.get? || @request.head?

        @headers["allow"] = action == :confirmation ? "GET, HEAD, POST" : "GET, HEAD"
        raise Refusal.new(405, "This page is only for reading", "Follow a link to it.")
      end

      # --- pages ---

      def overview
        asking = @web.sources.map { |source| Thread.new { [source, state_of(source)] } }
        states = asking.map(&:value) # in threads, so several silent stores take as long as one
        page("overview", "Overview", states: states, quick: states.any? { |_, it| partial?(it) })
      end

      def state_of(source)
        Thread.current.report_on_exception = false # #value raises it
        source.survey.snapshot(Survey::STEP_S / @web.sources.size)
      rescue Error => e
        e
      end

      def locks
        query = text("q")
        snapshot = snapshot_for(query)
        listing = Survey::Listing.new(
          snapshot, named: survey.named(@parameters["q"].to_s), query: query,
          kind: text("kind"), namespace: @parameters["namespace"], order: text("sort"),
          reverse: text("dir") == "desc", page: text("page").to_i
        )
        rows = survey.refresh(listing.statuses) # the survey may be old
        page(
          "locks", "Locks",
          snapshot: snapshot, listing: listing, rows: rows, quick: partial?(snapshot),
          other_secret: (@source.store.other_fingerprint if rows.empty? && !query.empty?)
        )
      end

      def lock
        status = survey.examine(@store_key, name)
        page(
          "lock", view.title_of(status),
          status: status, snapshot: snapshot_if_listed, taken: text("taken") == "yes"
        )
      end

      def confirmation(status = survey.examine(@store_key, name), problem: nil, code: 200)
        authorize_break
        protection = Protection.new(@request)
        @headers["set-cookie"] = protection.cookie if protection.cookie
        page(
          "confirmation", "Break #{view.title_of(status)}",
          code: code, still: true, status: status, token: protection.token, problem: problem,
          seen: Survey.holders_digest(status)
        )
      end

      def doctor
        at, findings = @source.findings
        page("doctor", "Doctor", still: true, at: at, findings: findings)
      end

      # --- break ---

      def carry_out
        user = authorize_break
        refuse_forgery
        outcome, status =
          Survey.break_seen(@source.store, @store_key, @parameters["seen"], name)
        return confirmation(status, code: 409, problem: PROBLEMS[outcome]) unless outcome == :broken

        tell(status, user)
        @headers["location"] =
          view.path("/locks/#{view.segment(@store_key)}", name: @parameters["name"], taken: "yes")
        [303, ""]
      end

      # @return [String] the user
      def authorize_break
        user = authorize(:break)
        return user unless @web.read_only?

        raise Refusal.new(403, "Locks cannot be broken here",
                          "These pages were mounted with read_only: true. Use `plock break` in a " \
                          "shell.")
      end

      def refuse_forgery
        why = Protection.new(@request).refusal or return
        raise Refusal.new(403, "Nothing was done",
                          "The form was not accepted: #{why}. Open the page of the lock again, " \
                          "and see that your browser keeps cookies.")
      end

      def tell(status, user)
        Log.warn(
          @web.logger_for(@source.store),
          CLI::Description.printable(
            "#{user} broke #{status.store_key} of #{@source.store.url} in Plock::Web: it was " \
            "#{status}"
          )
        )
      end

      # --- what pages need ---

      def survey = @source.survey

      # A search by name also works in a store that cannot list its keys.
      def snapshot_for(query)
        survey.snapshot
      rescue UnsupportedError
        raise if query.empty?

        Survey::Snapshot.new([], at: Time.now)
      end

      def partial?(snapshot) = snapshot.is_a?(Survey::Snapshot) && !snapshot.complete?

      def snapshot_if_listed
        survey.snapshot
      rescue UnsupportedError
        nil
      end

      # @return [String, nil] the name that the request gives, if it is this key's name
      def name
        given = @parameters["name"]
        given if survey.named?(@store_key, given)
      end

      def page(template, title, code: 200, quick: false, **locals)
        [code, view.page(template, title, quick: quick, **locals)]
      end

      def view = @view ||= View.new(@web, @request, @source, @parameters || {})

      def message(code, title, text, store_failed: false)
        page(
          "message", title,
          code: code, message: text, store_failed: store_failed, still: !store_failed
        )
      end

      # --- the request ---

      # @return [Hash{String => String}] the parameters that are readable texts
      def texts
        yield.select { |_, value| value.is_a?(String) && value.valid_encoding? }
      rescue *UNREADABLE
        raise Refusal.new(400, "The request cannot be read", "Go back to the overview.")
      end

      def text(name) = @parameters[name].to_s.strip

      def authorize(action)
        @web.user_of(@request, action) or
          raise Refusal.new(403, "You may not #{action} locks here",
                            "The application's authorize: refused this request. Sign in as a " \
                            "user who may, or ask an administrator.")
      end

      def chosen_source
        name = @parameters["store"] or return @web.sources.first
        @web.sources.find { |source| source.name == name } || raise(not_found)
      end

      def not_found
        Refusal.new(404, "There is no such page",
                    "The address names no lock of this store. The list shows all that are held.")
      end
    end
  end
end
