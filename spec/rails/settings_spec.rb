# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "Settings of an application of Rails" do
  include_context "with an application of Rails"

  it "need nothing where PLOCK_URL is set" do
    expect(
      told(
        "puts Plock.acquire('k', wait: 1) { |lease| lease.valid? }",
        env: {
          "PLOCK_URL" => shared_redis.unix_url
        }
      )
    ).to eq("true\n")
  end

  it "are read from config/plock.yml, for each environment" do
    app.write("config/plock.yml", <<~YAML)
      shared:
        namespace: billing
        options:
          pool_size: 3
      development:
        url: redis://localhost:7001/1
      test:
        url: <%= ENV.fetch("LOCKS") %>
        ttl: 30
        secret:
        options:
          verify: none
    YAML
    expect(
      told(
        "puts Plock.store.url, Plock.store.unverified?",
        environment: "development",
        env: {
          "LOCKS" => ""
        }
      )
    ).to eq("redis://localhost:7001/1\nfalse\n")
    output = told(<<~RUBY, env: { "LOCKS" => "rediss://localhost:7002" })
      puts Plock.store.url, Plock.store.unverified?, Plock.store.config.store_key("k")
    RUBY
    expect(output).to match(%r{^rediss://localhost:7002\ntrue\nplock:v1:billing:})
  end

  it "in config.plock go before the file, and what is nil does not" do
    app.write(
      "config/plock.yml", "test:\n  url: redis://localhost:7001\n  namespace: file\n  ttl: 7\n"
    )
    app.configure("config.plock.url = 'memory:'")
    app.configure("config.plock.ttl = nil")
    expect(told("Plock.acquire('k') { |lease| puts lease.ttl, lease.store_key }")).to match(
      /\A7.0\nplock:v1:file:\h{64}\n\z/
    )
  end

  it "may be given by initializers, in both ways" do
    app.write(
      "config/plock.yml", "test:\n  url: redis://localhost:7001\n  ttl: 7\n  namespace: file\n"
    )
    app.write("config/initializers/locks.rb", <<~RUBY)
      Plock.configure { |c| c.url = "memory:" }
      Rails.application.config.plock.ttl = 8
    RUBY
    expect(told("Plock.acquire('k') { |lease| puts lease.ttl, lease.store_key }")).to match(
      /\A8.0\nplock:v1:file:/
    )
  end

  it "have PLOCK_NAMESPACE count where they say nothing of it" do
    app.configure("config.plock.url = 'memory:'")
    expect(
      told("puts Plock.acquire('k', &:store_key)", env: { "PLOCK_NAMESPACE" => "billing" })
    ).to start_with("plock:v1:billing:")
  end

  it "are what the command goes by in the application's folder, too" do
    app.write("config/plock.yml",
              "shared:\n  namespace: billing\n  secret: <%= 's' * 16 %>\n" \
              "test:\n  url: #{shared_redis.unix_url}\n")
    namespace = "ns#{SecureRandom.hex(8)}"
    app.write("config/plock.yml", app.read("config/plock.yml").sub("billing", namespace))
    output = told(<<~RUBY, env: { "RUBYOPT" => nil })
      Plock.acquire("k") do
        exe = #{File.join(Support::RailsApplication::ROOT, "exe/plock").inspect}
        system({ "RAILS_ENV" => "test" }, Gem.ruby, "-I", #{Support::Examples::LIB.inspect},
               exe, "run", "k", "--", "echo", "ran")
        puts $?.exitstatus
      end
    RUBY
    expect(output).to match(/\Aplock: "k" is held .*\n75\n\z/)
  end

  it "may name a store in the database of the application" do
    app.use("active_record", gems: %w[activerecord sqlite3])
    app.write(
      "config/database.yml",
      "test: &one { adapter: sqlite3, database: storage/test.sqlite3, timeout: 20000 }\n" \
      "production: *one\n"
    )
    app.write("config/plock.yml",
              "shared:\n  namespace: billing\n" \
              "test:\n  store: database\n  ttl: 7\n  options:\n    pool_size: 3\n")
    output, status = app.rails("generate", "plock:database")
    expect(status).to be_success, output
    told("Dir['db/migrate/*.rb'].each { |file| load File.expand_path(file) }; " \
         "CreatePlockTables.new.exec_migration(ActiveRecord::Base.connection, :up)")
    expect(told(<<~RUBY)).to eq("Plock::Store::Database\n7.0\nplock:v1:billing:\n")
      Plock.acquire("k") { |lease| puts Plock.store.class, lease.ttl, lease.store_key[0, 17] }
    RUBY
    output, status = app.rails("plock:doctor", env: { "RAILS_ENV" => "test" })
    expect([output, status.exitstatus]).to match(
      [/^sqlite3:.*^  unknown  server: .*^  ok       trial: /m, 0]
    )
    table =
      app.rails(
        "console", "-e", "test", "--", "--nocolorize", "--noreadline",
        input: "lease = Plock.acquire('k')\nPlock.status('k')\n"
      ).first
    expect(table).to match(/"k": held.*\n.*host +pid/)
    production = { environment: "production", env: { "SECRET_KEY_BASE" => "0" * 64 } }
    ["pool_size: 3", "pool_size: 0", "pol_size: 3"].zip(
      [/\Abooted\n\z/, /plock.yml: store: .*pool_size must be/, /plock.yml: store: .*pol_size/]
    ) do |option, message|
      app.write("config/plock.yml", "production:\n  store: database\n  options: { #{option} }\n")
      expect(app.runner("puts 'booted'", **production).first).to match(message)
    end
    app.write("config/plock.yml", "test:\n  store: redis\n")
    expect(app.runner("1").first).to match(%r{config/plock.yml: store must be .*database, advisory})
  end

  it "that there are not stop the application, by name" do
    app.configure("config.plock.uri = 'memory:'")
    expect(app.runner("1").first).to include("config.plock has no uri; there are url, secret,")
  end

  it "that there are not stop it in the file, too" do
    app.write("config/plock.yml", "test:\n  pool_size: 4\n")
    expect(app.runner("1").first).to match(
      %r{config/plock.yml has no pool_size; there are url, .*\(Plock::ConfigurationError\)}
    )
  end

  it "that are no settings stop it" do
    app.write("config/plock.yml", "test: redis://localhost\n")
    expect(app.runner("1").first).to match(%r{config/plock.yml must have names and values for test})
  end

  it "turn on the structured log, in the application's log" do
    app.write(
      "config/plock.yml", <<~YAML
        test:
          url: 'memory:'
          log:
            level: info
            slow_wait: 0
            log_keys: true
      YAML
    )
    told("Plock.acquire('the key') { nil }")
    lines = app.log.lines.grep(/event=/)
    expect(lines).to match([/event=acquired kind=lock .* key="the key" .* slow=true/])
  end

  it "come too late once the store is in use" do
    app.configure("Plock.configure { |c| c.url = 'memory:' }; Plock.store")
    app.configure("config.plock.ttl = 3")
    expect(app.runner("1").first).to include("call Plock.configure before the first lock")
  end

  it "have the application's logger hear what cannot be raised" do
    app.configure("config.plock.url = 'memory:'")
    told("Plock.acquire('k') { Plock.break('k') }")
    expect(app.log).to match(/\[Plock\] the lease on "k" .* is lost before its block ended/)
  end

  describe "in production" do
    def boot(settings, env: {}, environment: "production")
      app.write("config/plock.yml", "#{environment}:\n#{settings.gsub(/^/, "  ")}")
      app.runner("puts 'booted'", environment: environment,
                                  env: { "SECRET_KEY_BASE" => "0" * 64, **env })
    end

    {
      "url: redsi://h" => /url: .*unknown scheme/,
      "url: redis://h\noptions: { pool_size: many }" => /options: pool_size must be an Integer/,
      "url: redis://h\nlog: loud" => /log level must be one of/,
      "url: redis://h\nttl: ten" => /ttl: must be from/,
      "url: redis://h\nsecret: <%= ENV['NONE'] %>" => /secret: .*no value: set it or PLOCK_SECRET/,
      "url: <%= ENV['NONE'] %>" => /url: .*no value: set it or PLOCK_URL/
    }.each do |settings, message|
      it "end the boot with the file and the key: #{settings.lines.last}" do
        output, status = boot("#{settings}\n")
        expect(status).not_to be_success
        file = Regexp.escape(app.path("config/plock.yml"))
        expect(output).to match(/#{file}: #{message}.*Plock::ConfigurationError/)
        expect(output).not_to include("booted")
      end
    end

    it "name config.plock, a variable or Plock.configure, if the value is from there" do
      expect(boot("namespace: n\n", env: { "PLOCK_URL" => "redsi://h" }).first).to match(
        /PLOCK_URL: url: .*unknown scheme/
      )
      app.write("config/initializers/locks.rb", "Plock.configure { |c| c.url = 'redsi://h' }\n")
      expect(boot("url: redis://h\n").first).to match(/Plock.configure: url: .*unknown scheme/)
      app.configure("config.plock.ttl = 'ten'")
      expect(boot("ttl: 7\n").first).to match(/config.plock: ttl: .*must be/)
    end

    it "end the boot in any environment but development and test" do
      app.write("config/environments/staging.rb", app.read("config/environments/production.rb"))
      expect(boot("url: redsi://h\n", environment: "staging").first).to include("unknown scheme")
      output, status = boot("url: redsi://h\nsecret:\n", environment: "development")
      expect([output, status]).to match([/booted/, be_success])
    end

    it "are no hindrance if they are right, and no server is asked" do
      listener = TCPServer.new("127.0.0.1", 0)
      url = "redis://127.0.0.1:#{listener.addr[1]}"
      secret = { "PLOCK_SECRET" => "s" * 16 }
      expect(boot("url: #{url}\nsecret:\nttl: 7\noptions: { pool_size: 3 }\n", env: secret))
        .to match(["booted\n", be_success])
      expect { listener.accept_nonblock }.to raise_error(IO::WaitReadable)
      place = File.join(app.folder, "absent", "locks")
      expect(boot("url: local:#{place}\n")).to match(["booted\n", be_success])
      expect(File.exist?(File.dirname(place))).to be(false)
    ensure
      listener&.close
    end

    it "may be wrong in a build, which has neither secrets nor servers" do
      build = { "SECRET_KEY_BASE_DUMMY" => "1" }
      expect(boot("url: <%= ENV['NONE'] %>\nsecret:\n", env: build)).to match(
        ["booted\n", be_success]
      )
    end
  end
end
