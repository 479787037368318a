# frozen_string_literal: true

module Plock
  # For the tests of applications: locks in memory, with a clock that tests can move.
  #
  # @example RSpec
  #   config.around { |example| Plock::Testing.install { example.run } }
  # @example Minitest
  #   def setup    = Plock::Testing.install
  #   def teardown = Plock::Testing.uninstall
  # @example One's own handling of a loss
  #   Plock::Testing.install do |store|
  #     Plock.acquire("import", on_lost: ->(_) { stopped = true }) { store.lose!("import") }
  #   end
  module Testing
    autoload :MemoryStore, File.expand_path("store/memory", __dir__)

    class << self
      # Makes a fresh store in memory the default store: while the block runs, or without a block
      # until {uninstall}. First it empties the stores that this process has in `memory:` and
      # `memory:NAME`, so that no test finds the locks of another. An install within the block of
      # another does not empty them.
      #
      # @yieldparam store [MemoryStore]
      # @return [Object, MemoryStore] the block's value; without a block the store
      def install
        store = MemoryStore.new
        MemoryBackend.clear_all unless @inside
        before = Plock.replace_store(store)
        return store unless block_given?

        begin
          outer, @inside = @inside, true
          yield store
        ensure
          @inside = outer
          Plock.replace_store(before)
        end
      end

      # Makes the configured store the default store again.
      #
      # @return [nil]
      def uninstall
        Plock.replace_store(nil)
        nil
      end
    end
  end
end
