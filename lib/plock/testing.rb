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
      # Puts a fresh store in memory in the place of the default one: as long as the block runs, or
      # without a block until {uninstall}. Whatever else of this process is in `memory:` or
      # `memory:NAME` is emptied before, so that no test finds what another one has left; not so by
      # an install within the block of another.
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

      # The configured store is the default again.
      #
      # @return [nil]
      def uninstall
        Plock.replace_store(nil)
        nil
      end
    end
  end
end
