# frozen_string_literal: true

require "fileutils"
require "plock"
require "tmpdir"

module Demo
  # A file that the processes of this host share: the one that PLOCK_URL names, else one in a folder
  # of its own, of which nothing is left after #close.
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

    # Keys need not be taken away: they end with those who hold them.
    def close(*)
      FileUtils.remove_entry(@folder) if @folder && File.exist?(@folder)
    end
  end
end
