# frozen_string_literal: true

require "securerandom"

module Plock
  class Web
    # Distinguishes a form of these pages from a request that another site makes through the
    # viewer's browser. The form repeats a random token from a cookie that no script can read. The
    # headers in which the browser names the sender are also checked. No session is needed, and
    # any worker process can admit the form.
    #
    # @api private
    class Protection
      FIELD = "token"
      FORM = /\A\h{64}\z/
      SAME_SITE = "same-origin"
      private_constant :FORM, :SAME_SITE

      def initialize(request)
        @request = request
      end

      def token = @token ||= kept || SecureRandom.hex(32)

      # @return [String, nil] the header that sets the cookie; nil: the browser has it already
      def cookie
        return if kept

        "#{cookie_name}=#{token}; path=#{path}; httponly; samesite=strict" \
          "#{"; secure" if @request.ssl?}"
      end

      # @return [String, nil] why a form is refused; nil: it is admitted
      def refusal
        return "another site sent it" unless same_origin?

        given = @request.POST[FIELD]
        return if kept && given.is_a?(String) && ::Rack::Utils.secure_compare(kept, given)

        "its token is not that of this browser"
      end

      private

      # Another site cannot set a cookie whose name begins with `__Host-`.
      def cookie_name = @request.ssl? ? "__Host-plock" : "plock"

      # A `__Host-` cookie must be for all paths. A cookie without TLS gets a narrow path, because
      # browsers also send it to servers on other ports.
      def path = @request.ssl? || @request.script_name.empty? ? "/" : @request.script_name

      def kept
        value = @request.cookies[cookie_name]
        value if value.is_a?(String) && FORM.match?(value)
      end

      # Older browsers send only the Origin header, and not Sec-Fetch-Site. The scheme in Origin is
      # not compared, because a proxy may have terminated TLS.
      def same_origin?
        site = @request.get_header("HTTP_SEC_FETCH_SITE")
        return site == SAME_SITE if site

        origin = @request.get_header("HTTP_ORIGIN") or return true
        origin.sub(%r{\Ahttps?://}, "") == @request.get_header("HTTP_HOST")
      end
    end
  end
end
