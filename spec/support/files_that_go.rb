# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "certificates"

module Support
  # TLS files that become unreadable after a while, as they do for a process that drops its
  # privileges.
  module FilesThatGo
    # @return [Hash] the options of a store that uses these files
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

    # The suite removes this folder at its end.
    def files_folder = @files_folder ||= Dir.mktmpdir("tls-", Supervisor.folder)

    def copy(file)
      File.join(files_folder, File.basename(file)).tap { |path| FileUtils.cp(file, path) }
    end
  end
end
