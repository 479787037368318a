# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "certificates"

module Support
  # Files for TLS that are out of reach after a while, as for a process that drops its privileges.
  module FilesThatGo
    # @return [Hash] options of a store
    def files
      @files ||= begin
        client = Certificates.client
        {
          ca_file: copy(Certificates.ca.cert_file),
          cert: copy(client.cert_file), key: copy(client.key_file)
        }
      end
    end

    def files_go = FileUtils.rm_r(files_folder)

    private

    # The suite removes its own folder.
    def files_folder = @files_folder ||= Dir.mktmpdir("tls-", Supervisor.folder)

    def copy(file)
      File.join(files_folder, File.basename(file)).tap { |path| FileUtils.cp(file, path) }
    end
  end
end
