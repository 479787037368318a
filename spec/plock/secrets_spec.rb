# frozen_string_literal: true

require "spec_helper"
require "parse/lock"
require "plock/cli/doctor/rights"
require "tmpdir"

# The contract (spec/support/store_contract/secrets.rb) tests most of the behaviour of
# fingerprints. These examples test the rest.
RSpec.describe "The fingerprint of a secret" do
  first, second = %w[first second].map { |word| word.ljust(16, "-") }

  let(:key) { "k#{SecureRandom.hex(8)}" }

  refused = ->(example, &block) do
    example.expect(&block).to example.raise_error(Plock::ConfigurationError, /others use/)
  end

  it "is 16 digits, which differ for each secret and each namespace" do
    all =
      [first, second].product([nil, "a", "b"])
        .map { |secret, namespace| Plock::Locking::Fingerprint.of(secret, namespace) }
    expect(all.uniq.size).to be(6)
    expect(all).to all(match(/\A\h{16}\z/))
    expect(Plock::Locking::Fingerprint.of(nil, "a")).to eq("none")
  end

  it "of another version of plock differs, and does not count as missing" do
    server = redis_server
    server.call("SET", "plock:1:secret", "2 something else")
    expect { open_store(server.unix_url).acquire(key) { nil } }.to raise_error(
      Plock::ConfigurationError, /\(unreadable\)/
    )
  end

  describe "on Redis", needs: "redis-server" do
    let(:server) { redis_server }

    def opened(secret, **options) = open_store(server.unix_url, secret: secret, **options)

    it "is compared by processes that start together: those with one of the two secrets work",
       :many_children do
      server # started before the forks
      go = IO.pipe
      outcomes = Array.new(8) do |number|
        Support::Child.new do
          go.first.read(1)
          opened(number.even? ? first : second).acquire(key, wait: 5) { :ran }
        rescue Plock::ConfigurationError => e
          e.code
        end
      end
      go.last.write("x" * 8)
      told = outcomes.map(&:result)
      expect(told.each_slice(2).map(&:first).tally).to eq(told.first => 4)
      expect(told.uniq).to match_array(%i[ran other_secret])
      go.each(&:close)
    end

    it "is noted again after the server has forgotten it" do
      mine = opened(first)
      mine.acquire(key) { nil }
      server.call("FLUSHALL")
      opened(second).acquire(key) { nil }
      expect(mine.acquire(key) { :ran }).to be(:ran) # a store compares its secret only once
      refused.call(self) { opened(first).acquire(key) { nil } }
    end

    it "does not expire, and is not a lock" do
      opened(first, namespace: "n").acquire(key) { nil }
      expect(server.call("TTL", "plock:1:secret:n")).to be(-1)
      expect(server.call("GET", "plock:1:secret:n")).to match(/\A1 \h{16} \d+ \S+ #{Process.pid}\z/)
    end

    it "needs no more rights than locks do" do
      server.call("ACL", "SETUSER", "locks", "on", ">pw", *Plock::CLI::Doctor::Rights::SMALLEST)
      expect(opened(first, username: "locks", password: "pw").acquire(key) { :ran }).to be(:ran)
    end

    it "that cannot be read is an ordinary failure, in time, and the block does not run" do
      gone = open_store("redis://127.0.0.1:1", secret: first)
      [-> { gone.acquire(key, wait: 0) { raise "ran" } }, -> { gone.status(key) }].each do |call|
        expect(&call).to raise_error(Plock::UnavailableError)
      end
    end

    it "that cannot be read once the key is granted releases the key, and is read again" do
      mine = opened(first)
      asked = 0
      allow(mine).to receive(:keep_note).and_wrap_original do |original, *arguments|
        raise Plock::UnavailableError, "away" if (asked += 1) == 1

        original.call(*arguments)
      end
      expect { mine.acquire(key) { raise "ran" } }.to raise_error(Plock::UnavailableError, "away")
      expect(opened(first).status(key)).not_to be_held
      expect([mine.acquire(key) { :ran }, asked]).to eq([:ran, 2])
    end

    it "is not that of Parse::Lock, which has a rule of its own" do
      opened(first).acquire(key) { nil }
      other = opened(second)
      Parse.synchronize_create_store = other
      expect(Parse::Lock.acquire(key, secret: nil) { :ran }).to be(:ran)
      expect(other.lock_acquire("raw", "owner", 1)).to be(true)
    ensure
      Parse.synchronize_create_store = nil
    end
  end

  describe "in a local store" do
    let(:folder) do
      Dir
        .mktmpdir("plock-local-")
        .tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
    end
    let(:file) { "#{folder}/locks.secret" }

    def opened(secret) = open_store("local:#{folder}/locks", secret: secret)

    it "is in a file beside the store, for this user only" do
      opened(first).acquire(key) { nil }
      expect(File.stat(file).mode & 0o777).to be(0o600)
      expect(File.read(file)).to match(/\A1 \h{16} \d+ \S+ #{Process.pid}\n\z/)
    end

    it "is not read from a file that others can write to, a link, or another kind of file" do
      opened(first).acquire(key) { nil }
      File.chmod(0o622, file)
      expect { opened(first).acquire(key) { nil } }.to raise_error(
        Plock::ConfigurationError, /others can write to it/
      )
      File.rename(file, "#{folder}/elsewhere")
      File.symlink("elsewhere", file)
      expect { opened(first).acquire(key) { nil } }.to raise_error(
        Plock::ConfigurationError, /symbolic link/
      )
      File.unlink(file)
      File.mkfifo(file)
      expect { opened(first).acquire(key) { nil } }.to raise_error(
        Plock::ConfigurationError, /no file/
      )
    end

    it "is written by the next process if one has died before it wrote" do
      opened(first)
      File.write(file, "", perm: 0o600)
      expect(opened(second).acquire(key) { :ran }).to be(:ran)
      refused.call(self) { opened(first).acquire(key) { nil } }
    end

    it "is not blocked by a child that was forked while its parent read it" do
      opened(first).acquire(key) { nil }
      forked = nil
      note = Plock::LocalNote.new(file)
      allow(note).to receive(:lock).and_wrap_original { |lock, *given|
        lock.call(*given).tap { forked = child(&:hear) }
      }
      note.keep("", false)
      expect(opened(first).acquire(key) { :ran }).to be(:ran)
      forked.tell(:end)
      forked.result
    end

    it "that cannot be opened for want of descriptors or memory has the system's code" do
      note = Plock::LocalNote.new(file)
      { Errno::EMFILE => :descriptors, Errno::ENFILE => :descriptors, Errno::ENOMEM => :no_memory,
        Errno::EIO => :io }.each do |error, code|
        allow(File).to receive(:open).with(file, any_args).and_raise(error)
        expect { note.keep("", false) }.to raise_error(Plock::UnavailableError) { |raised|
          expect(raised.code).to be(code)
        }
      end
    end

    it "that a process keeps locked is waited for only for a bounded time" do
      opened(first).acquire(key) { nil }
      File.open(file) do |other|
        other.flock(File::LOCK_EX)
        stub_const("Plock::LocalNote::PATIENCE_S", 0.05)
        expect { opened(first).acquire(key) { nil } }.to raise_error(
          Plock::UnavailableError, /another process has had/
        )
      end
      expect(opened(first).acquire(key) { :ran }).to be(:ran)
    end
  end

  describe "in a database", :databases do
    before(:context) { %w[plock/store/database support/databases].each { |file| require file } }

    let(:model) { Support::Databases.model(:sqlite) }
    let(:namespace) { "ns#{SecureRandom.hex(8)}" }

    def opened(secret, **options)
      discard(
        Plock::Store::Database.new(
          model, secret: secret, namespace: namespace, **Support::Databases::PATIENT, **options
        ),
        :close
      )
    end

    def row =
      model.connection.select_one(
        "SELECT * FROM plock_leases WHERE name = 'plock:1:secret:#{namespace}'"
      )

    it "is a row that is never pruned" do
      mine = opened(first)
      mine.acquire(key) { nil }
      site = mine.instance_variable_get(:@site)
      site.work(Plock::Clock.now + 20) do |connection|
        site.tables.prune(connection, Plock::Clock.now + 20)
      end
      expect(row).to include("token" => nil, "expires_at" => 0, "holder" => /\A1 \h{16} /)
    end

    it "is read, and noted later, inside the caller's transaction on SQLite: plock cannot write" do
      mine = opened(first, release_timeout: 0.5)
      mine.instance_variable_get(:@site).work(Plock::Clock.now + 20) { nil } # opens the connection
      model.transaction do
        # this statement makes the transaction lock the database
        model.connection.execute("DELETE FROM plock_leases WHERE name = 'no one'")
        expect(mine.status(key).held?).to be(false)
      end
      expect(row).to be_nil
      mine.acquire(key) { nil }
      expect(row).to include("holder" => /\A1 \h{16} /)
    end

    it "is only read inside a transaction, because others would wait for its end" do
      inside = opened(first, inside: true)
      model.transaction { inside.acquire(key, wait: 0) { nil } }
      expect(row).to be_nil
      inside.acquire(key) { nil }
      other = opened(second, inside: true)
      refused.call(self) { model.transaction { other.acquire(key, wait: 0) { nil } } }
    end
  end
end
