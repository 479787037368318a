# frozen_string_literal: true

module Plock
  module Locking
    # The abilities that some stores lack:
    #
    # * `:order`: waiters are admitted in FIFO order, even across processes
    # * `:lasting_fences`: fences keep growing after the server restarts
    # * `:busy_renewal`: leases are renewed even while Ruby is too busy to run other threads
    # * `:prompt_expiry`: a key that is not released is free as soon as its lease has expired
    # * `:semaphores`, `:read_write_locks`
    # * `:downgrade`: {Lease#downgrade}
    # * `:hand_over`: {Lease#dump} and {Locking#adopt}
    # * `:list`: {Locking#each_lock}
    # * `:compares_secrets`: the store notices if processes hash the keys of one namespace with
    #   different secrets
    # * `:background_release`: `release: :background` of {Store.open} and {Locking#acquire}
    # * `:replicas`: `replicas:` of {Store.open} and {Locking#acquire}
    #
    # A call that the store is not able to carry out raises {UnsupportedError}.
    ABILITIES = %i[
      order lasting_fences busy_renewal prompt_expiry semaphores read_write_locks downgrade
      hand_over list compares_secrets background_release replicas
    ].freeze

    # A store's class replaces this constant with a list of the abilities that it lacks.
    UNABLE = [].freeze

    # @param ability [Symbol] one of {ABILITIES}
    # @return [Boolean] does this store have it?
    # @raise [ArgumentError] there is no ability of this name
    #
    # @example
    #   Plock::Store.open("memory:").can?(:order) # => true
    def can?(ability)
      unless ABILITIES.include?(ability)
        raise ArgumentError, "there is no ability #{ability.inspect}"
      end

      !unable.include?(ability)
    end

    private

    def unable = self.class.const_get(:UNABLE)
  end
end
