# frozen_string_literal: true

require "fileutils"
require "plock"
require "tmpdir"

module Demo
  # A file that the processes of this host share: the file of PLOCK_URL, or a file in a temporary
  # folder. #close removes that folder.
  class HostStore
    attr_reader :url, :name

    def initialize(url = nil)
      @folder = Dir.mktmpdir("plock-demo") unless url
      @url = url || "local:#{@folder}/locks"
      store = Plock::Store.open(@url)
      @name = url ? store.url : "no server"
      store.close
    rescue Plock::Error, SignalException
      close
      raise
    end

    # Keys need no deletion, because they end with their holders.
    def close(*)
      FileUtils.remove_entry(@folder) if @folder && File.exist?(@folder)
    end
  end
end
