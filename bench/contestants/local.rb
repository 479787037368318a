# frozen_string_literal: true

# Locks among the processes of one host: plock's local store and its peers. The part `local`
# measures them. Their files are in the folder of the server's socket.
module Bench
  module Local
    def self.folder(server) = File.dirname(server.socket)

    def self.store(server)
      require "plock"

      Plock::Store.open("local:#{folder(server)}/plock/locks")
    end

    def self.front_door(server)
      require "parse/lock"

      Parse.synchronize_create_secret = SECRET
      Parse.synchronize_create_store = store(server)
    end

    def self.database(server)
      require "sqlite3"

      SQLite3::Database
        .new("#{folder(server)}/locks.sqlite")
        .tap { |database| database.busy_timeout = WAIT * 1000 }
    end

    # Returns the block's value, which SQLite3::Database#transaction does not return.
    def self.within(database)
      value = nil
      database.transaction(:immediate) { value = yield }
      value
    end
  end

  contestant "local-hold",
             label: "plock local:, LocalStore#hold",
             role: :engine,
             family: :local do |server|
    store = Local.store(server)
    key = Plock.store_key("bench:local:", "key", SECRET)
    -> { store.hold(key, 10_000, 2.0, nil) { :held } }
  end

  contestant "local-parse",
             label: "plock local:, Parse::Lock",
             role: :engine,
             family: :local do |server|
    Local.front_door(server)
    -> { Parse::Lock.acquire("bench:local", ttl: 10, wait: 2.0, on_degraded: :raise) { :held } }
  end

  contestant "local-acquire",
             label: "plock local:, Plock.acquire",
             role: :engine,
             family: :local do |server|
    store = Local.store(server)
    -> { store.acquire("bench:local") { :held } }
  end

  contestant "redis-unix",
             label: "plock, Parse::Lock, Redis over Unix",
             role: :engine,
             family: :local do |server|
    FrontDoor.open(server, :unix)
    -> { Parse::Lock.acquire("bench:unix", ttl: 10, wait: 2.0, on_degraded: :raise) { :held } }
  end

  contestant "flock", label: "File#flock", role: :peer, family: :local do |server|
    file = File.open("#{Local.folder(server)}/flock", File::RDWR | File::CREAT)
    -> do
      file.flock(File::LOCK_EX)
      :held
    ensure
      file.flock(File::LOCK_UN)
    end
  end

  contestant "sqlite",
             label: "SQLite BEGIN IMMEDIATE",
             role: :peer,
             family: :local,
             gems: %w[sqlite3] do |server|
    database = Local.database(server)
    -> { Local.within(database) { :held } }
  end

  contender "local-hold" do |server|
    store = Local.store(server)
    -> { ->(key, section) { store.hold(key, TTL * 1000, WAIT, nil) { section.call } } }
  end

  contender "local-parse" do |server|
    Local.front_door(server)
    -> do
      ->(key, section) do
        Parse::Lock.acquire(key, ttl: TTL, wait: WAIT, on_degraded: :raise, &section)
      end
    end
  end

  contender "local-acquire" do |server|
    store = Local.store(server)
    -> { ->(key, section) { store.acquire(key, ttl: TTL, wait: WAIT) { section.call } } }
  end

  contender "redis-unix" do |server|
    FrontDoor.open(server, :unix)
    -> do
      ->(key, section) do
        Parse::Lock.acquire(key, ttl: TTL, wait: WAIT, on_degraded: :raise, &section)
      end
    end
  end

  # flock locks a file, so each key has its own file. SQLite locks the whole database, so its
  # contender ignores the key.
  contender "flock" do |server|
    -> do
      files =
        Hash.new do |known, key|
          known[key] = File.open(
            "#{Local.folder(server)}/flock-#{key.tr(":", "-")}", File::RDWR | File::CREAT
          )
        end
      ->(key, section) do
        file = files[key]
        file.flock(File::LOCK_EX)
        begin
          section.call
        ensure
          file.flock(File::LOCK_UN)
        end
      end
    end
  end

  contender "sqlite" do |server|
    database = Local.database(server)
    -> { ->(_key, section) { Local.within(database, &section) } }
  end
end
