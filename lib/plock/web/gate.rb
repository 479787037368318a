# frozen_string_literal: true

require "ipaddr"
require "securerandom"

module Plock
  class Web
    # Admits only requests that have a random token. The user who started `plock web` finds the
    # token in the URL that the command prints. A cookie then keeps the token, so that the token
    # does not stay in the address.
    #
    # The pages are at a random path. Browsers send a cookie to all ports of a host, but only
    # below the cookie's path. So the servers of other users do not receive the cookie.
    #
    # @api private
    class Gate
      FIELD = "token"
      COOKIE = "plock_web"
      TRACE = 5 # how many lines of the backtrace are shown for a bug in plock
      TEXT = {
        "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store",
        "referrer-policy" => "no-referrer", "x-content-type-options" => "nosniff"
      }.freeze
      private_constant :FIELD, :COOKIE, :TRACE, :TEXT

      # @param names [Array<String>] the names of this host; localhost and IP addresses are always
      #   admitted
      def initialize(app, names = [], token = SecureRandom.urlsafe_base64(24))
        @app = app
        @names = ["localhost", *names].map(&:downcase)
        @token = token
        @place = "/#{SecureRandom.urlsafe_base64(9)}"
      end

      attr_reader :token

      # @param env [Hash] the environment that Rack passes
      # @return [Array(Integer, Hash, Array<String>)]
      def call(env)
        request = ::Rack::Request.new(env)
        return refuse("The address names another host than this one.") unless named?(env)
        return enter if request.get? && known?(request.GET[FIELD])

        inside = inside(env)
        return @app.call(inside) if inside && known?(request.cookies[COOKIE])

        refuse("Open the URL that plock web has printed: it has a token in it.")
      rescue ::Rack::QueryParser::ParameterTypeError, ::Rack::QueryParser::InvalidParameterError,
             RangeError
        [400, TEXT.dup, ["The address cannot be read.\n"]]
      rescue StandardError => e # otherwise the server would show the error to the browser
        env["rack.errors"].puts("plock web: #{e.class}: #{e.message}", *e.backtrace.first(TRACE))
        [500, TEXT.dup, ["plock web has failed. Its terminal says how.\n"]]
      end

      private

      # Is the host in the address really this host? An attacker's DNS server may resolve a name
      # to this host, and the browser would then treat the pages as part of the attacker's site.
      # An IP address or this host's own name cannot be such a name.
      def named?(env)
        name = env["HTTP_HOST"].to_s.downcase.sub(/:\d+\z/, "")
        @names.include?(name) || !IPAddr.new(name).nil?
      rescue IPAddr::Error
        false
      end

      def inside(env)
        path = env["PATH_INFO"]
        return unless path == @place || path.start_with?("#{@place}/")

        env.merge("SCRIPT_NAME" => @place, "PATH_INFO" => path.delete_prefix(@place))
      end

      def known?(token)
        token.is_a?(String) && ::Rack::Utils.secure_compare(token, @token)
      end

      def enter
        cookie = "#{COOKIE}=#{@token}; path=#{@place}; httponly; samesite=lax"
        [303, TEXT.merge("location" => "#{@place}/", "set-cookie" => cookie), []]
      end

      def refuse(why) = [403, TEXT.dup, ["#{why}\n"]]
    end
  end
end
