# frozen_string_literal: true

require_relative "assets"
require_relative "sparkline"
require_relative "words"

module Plock
  class Web
    # Renders the templates. Everything that they insert with `<%=` is escaped.
    #
    # @api private
    class View
      include Words

      FOLDER = File.expand_path("templates", __dir__)
      QUICK_S = 1 # seconds between two refreshes while the survey is not complete
      PEOPLE = 200 # how many holders or waiters of one key are shown
      private_constant :FOLDER, :QUICK_S

      Dir["#{FOLDER}/*.erb"].each do |file|
        ruby = ::Erubi::Engine.new(File.read(file, encoding: "UTF-8"), escape: true).src
        # The -1 makes the template begin at line 1 in error messages and backtraces.
        class_eval(<<~RUBY, file, -1) # rubocop:disable Style/EvalWithLocation -- see above
          # frozen_string_literal: true
          def template_#{File.basename(file, ".erb")}
          #{ruby}
          end
        RUBY
      end

      # @param source [Source, nil] nil: the viewer may not see any store
      def initialize(web, request, source, parameters)
        @web = web
        @request = request
        @source = source
        @parameters = parameters
        @now = Time.now
      end

      # @param quick [Boolean] true: the page refreshes itself every second
      # @param still [Boolean] true: the page does not refresh itself
      # @param shown [Hash{Symbol => Object}] the instance variables that the template reads
      # @return [String] the whole page
      def page(template, title, quick: false, still: false, **shown)
        @title = title
        @refresh = quick ? QUICK_S : @web.refresh unless still
        @template = template
        @main = part(template, **shown)
        part("layout")
      end

      # @return [String] HTML
      def part(template, **shown)
        shown.each { |name, value| instance_variable_set("@#{name}", value) }
        __send__("template_#{template}")
      end

      # --- links ---

      # @param path [String] a path below the web interface's own address
      # @param query [Hash{Symbol => Object}] nil values are left out
      def path(path, store: @source, **query)
        several = @web.sources.size > 1
        query = { store: (store.name if several && store), **query }.compact
        address = "#{@request.script_name}#{path}"
        query.empty? ? address : "#{address}?#{::Rack::Utils.build_query(query)}"
      end

      # @return [String] the text, escaped as one segment of a path
      def segment(text) = ::Rack::Utils.escape_path(text).gsub("/", "%2F")

      def lock_path(status, store: @source, **query)
        path("/locks/#{segment(status.store_key)}", store: store, name: status.key, **query)
      end

      def asset(name) = "#{@request.script_name}#{Assets.path(name)}"

      # The address of the current list with these parameters changed.
      def list_path(**changes)
        kept = {
          q: (@listing.query unless @listing.query.empty?), kind: @listing.kind,
          namespace: @parameters["namespace"], sort: @parameters["sort"], dir: @parameters["dir"]
        }
        path("/locks", **kept, **changes)
      end

      # @param name [String] a column: a key of the list's ORDERS
      # @return [Array(String, String)] the link that sorts by this column, and its `aria-sort`
      def sorting(name)
        return [list_path(sort: name, dir: nil), "none"] unless @listing.order == name

        [list_path(sort: name, dir: @listing.reverse? ? nil : "desc"),
         @listing.descending? ? "descending" : "ascending"]
      end

      # The web interface in which these pages are embedded, such as Sidekiq's.
      #
      # @return [Array(String, String), nil] its name and address; nil: there is none
      def way_back = @request.get_header("plock.web.back")

      # The token that Sidekiq::Web checks.
      #
      # @return [String, nil]
      def authenticity_token = @request.get_header(:csrf_token)

      def current?(place) = @request.path_info.chomp("/").start_with?(place)
    end
  end
end
