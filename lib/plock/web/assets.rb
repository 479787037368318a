# frozen_string_literal: true

require "digest"

module Plock
  class Web
    # The style sheets, the script and the icon. They are the same for all viewers, so they need
    # no permission.
    #
    # @api private
    module Assets
      FOLDER = File.expand_path("assets", __dir__)
      TYPES = {
        "plock.css" => "text/css; charset=utf-8",
        "phone.css" => "text/css; charset=utf-8",
        "plock.js" => "text/javascript; charset=utf-8",
        "plock.svg" => "image/svg+xml"
      }.freeze
      CONTENTS =
        TYPES.keys.to_h { |name| [name, File.read("#{FOLDER}/#{name}", encoding: "UTF-8").freeze] }
             .freeze
      DIGESTS = CONTENTS.transform_values { |text| Digest::SHA256.hexdigest(text)[0, 12] }.freeze
      PATH = %r{\A/assets/([a-z.]+)\z}
      YEAR = "public, max-age=31536000, immutable"
      private_constant :FOLDER, :CONTENTS, :DIGESTS, :PATH, :YEAR

      # @return [String] the path, with a digest of the contents, so that browsers may keep the
      #   file
      def self.path(name) = "/assets/#{name}?v=#{DIGESTS.fetch(name)}"

      # @return [Array(Integer, Hash, Array<String>), nil] nil: the request is not for an asset
      def self.response(request)
        name = request.path_info[PATH, 1]
        return unless TYPES.key?(name) && (request.get? || request.head?)

        headers = {
          "content-type" => TYPES.fetch(name), "cache-control" => YEAR,
          "x-content-type-options" => "nosniff"
        }
        [200, headers, request.head? ? [] : [CONTENTS.fetch(name)]]
      end
    end
  end
end
