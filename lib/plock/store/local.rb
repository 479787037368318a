# frozen_string_literal: true

require_relative "local/hold"
require_relative "local/note"
require_relative "../locking"
require_relative "../log"

module Plock
  # Locks among the processes of one host, in a file that all of them map. `local:` opens such a
  # store. There is no server to run, and a call takes microseconds.
  #
  # A lease ends when it expires, and also when its process ends: the next waiter gets the key as
  # soon as the holder has died. Some leases outlive their process, and end only when they expire.
  # These are leases with `at_least:`, leases of {Locking#once}, adopted leases, and leases that
  # were handed over but not adopted yet.
  #
  # @example In $XDG_RUNTIME_DIR/plock, or in a folder below /tmp
  #   store = Plock::Store.open("local:")
  #   store.acquire("import") { import }
  #
  # @example In a folder of the application
  #   store = Plock::Store.open("local:/var/lib/app/locks")
  #   store.acquire("import") { import }
  #
  # @!method path
  #   @return [String] the path of the file
  #
  # @!method close
  #   Unmaps the file as soon as no lease needs it. The next use of the store opens it again.
  #   @return [nil]
  #
  # @!method closed?
  #   @return [Boolean]
  #
  # @!method hold(key, ttl_ms, wait, report)
  #   @see Store#hold
  #
  # @!method hold_digest(prefix, key, secret, ttl_ms, wait, report)
  #   @see Store#hold_digest
  #
  # @!method lock_acquire(key, owner, ttl)
  #   @see Store#lock_acquire
  #
  # @!method lock_release(key, owner)
  #   @see Store#lock_release
  class LocalStore
    include Locking
    include Locking::Direct

    # The abilities that this store lacks; see {Locking::ABILITIES}.
    UNABLE = %i[replicas].freeze

    SCHEME = "local:"
    NOTES = "plock:1:" # the names of notes begin with this
    KEYS = (16..1_048_576).freeze
    MICROSECONDS = 1_000_000.0

    LISTED_AT_ONCE = 100

    # Seconds for which a call that has lost its leases with the file waits for other calls of this
    # process to give up theirs, and the pause between two attempts.
    OTHERS_GIVE_UP_S = 1.0
    LOOK_S = 0.01
    private_constant :SCHEME, :NOTES, :KEYS, :MICROSECONDS, :LISTED_AT_ONCE, :OTHERS_GIVE_UP_S,
                     :LOOK_S

    class << self
      # @api private
      def opens?(url) = url.start_with?(SCHEME)

      # @api private
      # @param url [String] `local:`, or `local:/path/to/file`, with or without `?keys=`
      # @param keys [Integer, nil] how many keys can be held or waited for at a time; nil: as many
      #   as the file was made for
      # @raise [ConfigurationError] the URL or the number is invalid, or the file cannot be used;
      #   the message says why
      def open(url, keys, config) = attach(*place(url, keys)).introduce(config)

      # @api private
      # @return [Array(String, Integer)] the path and the number of keys, each nil if it is not
      #   given
      # @raise [ConfigurationError] the URL or the number is invalid
      def place(url, keys)
        path, query = url.delete_prefix(SCHEME).split("?", 2)
        [path_in(path.to_s), number(keys || keys_in(query))]
      end

      private

      def path_in(text)
        return if text.empty?
        fail_with("the path in #{SCHEME} has to be absolute") unless text.start_with?("/")

        decoded = text.b.gsub(/%(\h\h)/) { $1.hex.chr }
        fail_with("the path has a NUL byte") if decoded.include?("\0")
        decoded.force_encoding(text.encoding)
      end

      def keys_in(query)
        return if query.nil?

        name, value = query.split("=", 2)
        fail_with("#{SCHEME} takes no option but keys") unless name == "keys" && value
        value.match?(/\A\d{1,9}\z/) ? Integer(value, 10) : fail_with("keys must be a number")
      end

      def number(keys)
        return keys if keys.nil? || (KEYS.cover?(keys) && keys.is_a?(Integer))

        fail_with("keys must be from #{KEYS.first} to #{KEYS.last} (got #{keys.inspect})")
      end

      def fail_with(message)
        raise ConfigurationError, "Plock::Store.open: #{message}"
      end
    end

    # @return [String]
    def url = "#{SCHEME}#{path}"

    # @api private
    def introduce(config)
      @config = config
      why = remade
      if why
        Log.warn(
          config.logger,
          "the local store #{path} was created again, because #{why}: any lease in it is lost"
        )
      end
      self
    end

    # @api private
    # A release takes microseconds, so it needs no budget.
    def release_all(holds, keep, _budget)
      Locking::ReleaseEach.call(holds) { |hold| hold.release(keep) }
    end

    # @api private
    # @param heir [String, nil] the dump of another lease, whose token becomes the new token; nil:
    #   the new token is random
    def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, replicas: nil, &taken)
      key, token = LocalHold.read(dump)
      adopt_owner(key, token, renew, max_hold, watch, heir && LocalHold.read(heir)[1], ttl, &taken)
    end

    # @api private
    def examine(key, _shared, _budget = nil)
      people = ask_people(key)
      return if people.empty?

      host = host_name
      waiters, holders = people.partition(&:first).map do |some|
        some.map do |waits, left, fence, since, pid, thread, label, mode|
          facts = { host: host, pid: pid, thread: thread, label: label,
                    since: since / MICROSECONDS, mode: mode }
          waits ? Status.waiter(**facts) : Status.holder(remaining: left, fence: fence, **facts)
        end
      end
      [holders.sort_by(&:fence), waiters]
    end

    private

    # With `at_least:` the key must stay taken even if this process dies. So the acquire already
    # passes `at_least:` to the engine.
    def fill(lease, store_key, options, patience, _asking = 0.0)
      lease.hold =
        take_for(
          store_key, options.ttl, patience, options.renew, options.max_hold, options.label,
          options.watch?, options.share, options.at_least
        ) { |hold| lease.hold = hold }
    end

    # Like {#fill}, for several keys. A failure of the store is raised at once, and does not count
    # as a refusal until `wait:` ends: all keys are in one file, whose failures are not temporary.
    def fill_together(names, group, options, deadline)
      group.asked = names
      group.answered(
        group.first_answer do
          take_all_for(
            names, options.ttl, left_until(deadline), options.renew, options.max_hold,
            options.label, options.watch?, options.at_least
          ) { |holds| group.granted = holds }
        end
      )
    end

    # If the file was removed or replaced, the leases in it keep this process from using the new
    # file. So a call that has some of its keys gives them up, and begins again. Other calls of this
    # process may have leases in that file, too, and give them up at about the same time.
    def fill_in_order(group, options, deadline)
      super
    rescue *Locking::Acquisition::STORE_FAILURES
      raise unless left_until(deadline).positive? && group.lost_within?(OTHERS_GIVE_UP_S)

      sleep(LOOK_S)
      :lost
    end

    def break_hold(key, _shared, only) = ask_break(key, only&.filter_map(&:fence))

    # A note is a file beside the store's file, such as `locks.secret` or `locks.secret.NAMESPACE`.
    def keep_note(name, note, replace)
      LocalNote.new("#{path}.#{name.delete_prefix(NOTES).tr(":", ".")}").keep(note, replace)
    end

    def keys_after(prefix, cursor)
      keys = []
      cursor ||= 0
      LISTED_AT_ONCE.times do
        cursor, key = ask_next_key(cursor)
        return [keys, nil] unless cursor

        keys << key if key.start_with?(prefix)
      end
      [keys, cursor]
    end
  end
end
